"""Every query of every board and rule, ready to be sent to real servers.

For end-to-end tests: after a run with id ``run`` has been sent through the stack, each of :func:`panel_queries` must
return data (unless ``empty_when`` applies), each of :func:`variable_queries` a non-empty list, and each of
:func:`rule_queries` at least one series with its ``label``, which is this run's id or the collectors' job::

    for query in panel_queries(run="demo", duration="10m"):
        if query.datasource == "prometheus":
            answer = get("/api/v1/query", query=query.text, time=end_of_run)   # or query_range
        elif query.datasource == "loki":
            answer = get("/loki/api/v1/query_range", query=query.text, start=..., end=...)
        else:
            answer = get("/api/search", q=query.text, start=..., end=..., limit=..., spss=...)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboards.boards import BOARDS
from dashboards.lib import collector
from dashboards.lib.names import label_name
from dashboards.lib.promql import Match
from dashboards.lib.queries import PromQuery
from dashboards.lib.rules import AlertRule, RecordingRule
from dashboards.rules import RULE_FILES, logged
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dashboards.lib.layout import Board

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


@dataclass(frozen=True, slots=True)
class BoardQuery:
    """A query with its variables replaced.

    Attributes:
        board: uid of the board.
        panel: title of the panel, the name of the variable, or of the annotation.
        datasource: ``prometheus``, ``loki`` or ``tempo``.
        text: PromQL, LogQL or TraceQL.
        exemplar: the panel also asks Prometheus for exemplars of this query.
        empty_when: when a healthy run has no data for it; None: it always has.
    """

    board: str
    panel: str
    datasource: str
    text: str
    exemplar: bool = False
    empty_when: str | None = None


@dataclass(frozen=True, slots=True)
class RuleQuery:
    """What a rule evaluates.

    Attributes:
        name: name of the alert or of the recorded series.
        alert: it is an alert.
        text: the rule's PromQL; of an alert without its condition, so that it returns data while nothing is wrong.
        recorded: the series that a loaded recording rule leaves in Prometheus, for the given run; of an alert the
            series that it watches.
        label: the label and the value that tell whom the series is about: the run, or the collectors.
        empty_when: when it has no data although all is well; None: it always has.
    """

    name: str
    alert: bool
    text: str
    recorded: str
    label: tuple[str, str]
    empty_when: str | None = None


def substituted(text: str, run: str, duration: str = "10m", values: Mapping[str, str] | None = None) -> str:
    """``text`` with the boards' variables replaced as Grafana does with every choice left at "All".

    ``duration`` is the length of the visible time range and of every averaging window, as PromQL writes it; ``values``
    replaces single variables. An unknown variable is an error.
    """
    known = {
        "run": run,
        "rank": ".*",
        "reward": ".*",
        "key": ".*",
        "slower_than": "0s",
        "role": ".*",
        "instance": ".*",
        "replica": ".*",
        "window": duration,
        "__range": duration,
        "__rate_interval": duration,
        "__interval": "15s",
        "__auto": duration,
        **(values or {}),
    }
    return _VARIABLE.sub(lambda match: known[match[1] or match[2]], text)


def panel_queries(run: str, duration: str = "10m") -> Iterator[BoardQuery]:
    """Return the queries of all panels."""
    for board in BOARDS:
        for cell in board.cells:
            for query in cell.panel.queries:
                yield BoardQuery(
                    board=board.uid,
                    panel=cell.panel.title,
                    datasource=query.datasource["type"],
                    text=substituted(query.text, run, duration),
                    exemplar=isinstance(query, PromQuery) and query.exemplar,
                    empty_when=query.empty_when,
                )


def variable_queries(run: str, duration: str = "10m") -> Iterator[BoardQuery]:
    """Return what fills the selectors: Grafana's own ``label_values([selector, ]label)``, not PromQL."""
    for board in BOARDS:
        for name, text in _variables(board):
            yield BoardQuery(board.uid, name, "prometheus", substituted(text, run, duration))


def annotation_queries(run: str, duration: str = "10m") -> Iterator[BoardQuery]:
    """Return what marks the time axis; empty while no alert fires."""
    for board in BOARDS:
        for mark in board.annotations:
            text = substituted(mark["expr"], run, duration)
            yield BoardQuery(board.uid, mark["name"], "prometheus", text, empty_when="no alert fires")


def _variables(board: Board) -> Iterator[tuple[str, str]]:
    for variable in board.variables:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


def rule_queries(run: str) -> Iterator[RuleQuery]:
    """Return the recording rules and alerts, over all runs or all collectors: look for ``label`` in the answer."""
    everything = [rule for groups in RULE_FILES.values() for group in groups for rule in group.rules]
    empty = {rule.name: rule.empty_when for rule in everything if isinstance(rule, RecordingRule)}
    about_run, about_collectors = Match(attributes.RL_RUN_ID, run), collector.OF_A_COLLECTOR
    for file, groups in RULE_FILES.items():
        about = about_collectors if file.startswith("collector_") else about_run
        if file.startswith("logged_"):
            about = Match(logged.JOB, run)
        label = (label_name(about.attribute), about.value)
        for rule in (rule for group in groups for rule in group.rules):
            alert = isinstance(rule, AlertRule)
            text, series = (rule.signal, rule.signal) if isinstance(rule, AlertRule) else (rule.expr, rule.name)
            yield RuleQuery(rule.name, alert, text, f"{series}{{{about}}}", label, empty.get(series))
