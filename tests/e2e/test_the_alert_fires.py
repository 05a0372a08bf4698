"""The generated rules, as Prometheus has loaded them, fire for a run that is driven into a failure, and for no other.

The row of the board, which reads what a rule has recorded, shows it.

Nothing of the rules is shortened: they are evaluated twice a minute, and the alert waits for one.
"""

from __future__ import annotations

import json

import pytest
from programs import DRIVEN_RUN, HEALTHY_RUN
from support.backends import wait_for

from dashboards.queries_of import panel_queries
from dashboards.rules.health import HEALTH
from otel_rl.semconv.attributes import RlHealthCodeValues as Rule

#: One worker of xdist has the stack, and so all tests that ask it.
pytestmark = pytest.mark.xdist_group("stack")

#: Record, alert, a minute of waiting, and the firing: four evaluations and that minute where nothing else goes on.
PATIENCE_SECONDS = 900


def _alerts(backends, run, state):
    """Alerts of the run that have been in this state, also those that are over by now."""
    query = f'max_over_time(ALERTS{{rl_run_id="{run}", alertstate=~"{state}"}}[1h])'
    return {one["metric"]["alertname"]: one["metric"] for one in backends.promql(query)}


def test_the_alert_of_a_driven_failure_fires_and_the_healthy_run_has_none(driven, backends):
    firing = wait_for(
        lambda: _alerts(backends, DRIVEN_RUN, "firing"), "the alert fires in Prometheus", PATIENCE_SECONDS
    )
    assert firing["AnswersTruncated"]["severity"] == "warning"
    evaluated = backends.promql(f'count_over_time({HEALTH.name}{{rl_run_id="{HEALTHY_RUN}"}}[1h])')
    assert evaluated, "the rules have seen the healthy run too"
    assert _alerts(backends, HEALTHY_RUN, "firing") == {}


@pytest.mark.parametrize(
    "query",
    [query for query in panel_queries(DRIVEN_RUN) if query.panel in ("Health, by rule", "What has changed")],
    ids=lambda query: query.panel,
)
def test_the_row_of_the_board_shows_it(query, driven, backends):
    ask = backends.promql if query.datasource == "prometheus" else backends.logql
    found = wait_for(lambda: ask(query.text), f"data for {query.text}")
    assert Rule.P9_TRUNCATION in json.dumps(found)
