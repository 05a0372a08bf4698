"""Links from metric to trace to log; each carries the run and the visible time range."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dashboards.lib import search
from dashboards.lib.names import label_name, traceql_name
from dashboards.lib.promql import Match
from dashboards.lib.queries import LokiQuery, TempoQuery
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from dashboards.lib.queries import Query

TAG = "otel-rl"
_VARIABLE = re.compile(r"\$\{[^}]+\}")


def explore(query: Query) -> str:
    """Return the address of Grafana's Explore with ``query``, for the chosen run and the visible time range."""
    target = {"refId": "A", **query.to_json_data()}
    pane = {
        "datasource": query.datasource["uid"],
        "queries": [target],
        "range": {"from": "${__from}", "to": "${__to}"},
    }
    return f"/explore?schemaVersion=1&panes={_encoded(json.dumps({'otel-rl': pane}, separators=(',', ':')))}"


def _encoded(text: str) -> str:
    """URL-encode ``text`` but leave ``${variable}`` to Grafana, which replaces it in the address as it stands."""
    text = re.sub(r"\$(run|rank)\b", r"${\1}", text)
    parts = zip(_VARIABLE.split(text), [*_VARIABLE.findall(text), ""], strict=True)
    return "".join(quote(plain, safe="") + variable for plain, variable in parts)


def data_link(title: str, query: Query) -> dict[str, Any]:
    """Return a link on a point, a series or a table cell that opens ``query`` in Explore."""
    return {"title": title, "url": explore(query), "targetBlank": True}


def traces(title: str, *conditions: str) -> dict[str, Any]:
    """Return a link to the traces of the run that meet ``conditions``."""
    return data_link(title, TempoQuery(search.traces_of_run(*conditions), table="traces"))


def records(title: str, *matches: Match) -> dict[str, Any]:
    """Return a link to the log records of the run that meet ``matches``."""
    return data_link(title, LokiQuery(search.logs(*matches)))


#: The rank of the series that was clicked.
CLICKED_RANK = f"${{__field.labels.{label_name(attributes.RL_RANK)}}}"

RANK_LINKS = [
    traces("Traces of this rank", f"{traceql_name(attributes.RL_RANK)} = {CLICKED_RANK}"),
    records("Logs of this rank", Match(attributes.RL_RANK, CLICKED_RANK)),
]

#: For the column of trace ids of a Tempo table: the trace, and what was logged within it.
TRACE_LINKS = [
    data_link("Open the trace", TempoQuery("${__value.raw}")),
    records("Logs of this trace", Match("trace_id", "${__value.raw}")),
]


def between_boards() -> dict[str, Any]:
    """Return a menu of all boards of otel-rl; run, other variables and time range go along."""
    return {
        "asDropdown": False,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "tags": [TAG],
        "targetBlank": False,
        "title": "otel-rl",
        "tooltip": "The other boards, for the same run and time",
        "type": "dashboards",
        "url": "",
    }
