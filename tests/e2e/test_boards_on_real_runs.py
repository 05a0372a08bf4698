"""Every query of every board and rule, asked of the real servers, returns data of the selected run."""

from __future__ import annotations

import re

import pytest
from backends import wait_for
from programs import RUN

from dashboards.queries_of import panel_queries, rule_queries, variable_queries

PANELS = list(panel_queries(RUN))
_LABEL_VALUES = re.compile(r"label_values\((?:(?P<selector>.*),\s*)?(?P<label>\w+)\)$")


def _name(query) -> str:
    return f"{query.board}/{query.panel}/{query.datasource}"


@pytest.mark.parametrize("query", PANELS, ids=_name)
def test_panel_has_data(query, training, agent, rollouts, backends):
    ask = {"prometheus": backends.promql, "loki": backends.logql, "tempo": backends.traceql}[query.datasource]
    wait_for(lambda: ask(query.text), f"data for {query.text}")


@pytest.mark.parametrize("query", list(variable_queries(RUN)), ids=_name)
def test_selector_has_values(query, training, agent, backends):
    match = _LABEL_VALUES.match(query.text)
    assert match, query.text
    wait_for(lambda: backends.label_values(match["label"], match["selector"] or "{__name__=~'.+'}"), query.text)


@pytest.mark.parametrize("query", list(rule_queries(RUN)), ids=lambda query: query.name)
def test_rule_has_data(query, training, agent, backends):
    label, value = query.label

    def of_this_run_or_the_collector():
        return [one for one in backends.promql(query.text) if one["metric"].get(label) == value]

    if query.empty_when is None:
        wait_for(of_this_run_or_the_collector, f"data for {query.text}")
        wait_for(lambda: backends.promql(query.recorded), f"what the loaded rule left: {query.recorded}")
