"""Rows of the boards that need an engine in the process: a real vLLM fills them, through the real stack."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from engine_runs import HERE, SCRIPTS, TIMEOUT, environment
from stack import Stack, free_ports
from support.backends import Backends, wait_for

pytest.importorskip("vllm")
pytest.importorskip("grafanalib")

from dashboards.boards.engine_row import ENGINES
from dashboards.boards.trajectory_row import TRAJECTORIES
from dashboards.boards.weight_sync_row import WEIGHT_SYNC
from dashboards.queries_of import panel_queries

RUN = "engine-run"
PLAN = {"steps": 8, "change": {"step": 5, "fault": "partial"}}
#: The collector decides soon on what it keeps.
QUICK = {"OTEL_RL_COLLECTOR_DECISION_WAIT": "5s", "OTEL_RL_COLLECTOR_ROOT_WAIT": "2s"}
TITLES = {cell.panel.title for row in (ENGINES, TRAJECTORIES, WEIGHT_SYNC) for cell in row.cells}
PANELS = [
    query for query in panel_queries(RUN) if query.board == "otel-rl-rollouts-tools-rewards" and query.panel in TITLES
]


@pytest.fixture(scope="module")
def backends(model, tmp_path_factory):
    """The stack, after a job whose engine gets only a half of its weights from a step on."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "plan.json").write_text(json.dumps(PLAN))
    with Stack(tmp_path_factory.mktemp("stack"), free_ports(), QUICK) as stack:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": stack.addresses["otlp_http"],
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_METRIC_EXPORT_INTERVAL": "2000",
            "OTEL_RL_RUN_ID": RUN,
            "OTEL_RL_SYNC_CHECK": "all",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        }
        program = [sys.executable, HERE / "drift_program.py", "plan.json", model]
        done = subprocess.run(
            [SCRIPTS / "opentelemetry-instrument", *program],
            env=environment(folder, **variables),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        yield Backends(stack)


@pytest.mark.parametrize("query", PANELS, ids=lambda query: f"{query.panel}/{query.datasource}")
def test_panel_has_data_of_a_real_engine(query, backends):
    ask = {"prometheus": backends.promql, "loki": backends.logql, "tempo": backends.traceql}[query.datasource]
    found = wait_for(lambda: ask(query.text), f"data for {query.text}")
    if query.datasource == "prometheus":
        # A quotient of rates that are 0 is there too, and is no number.
        assert any(math.isfinite(float(one["value"][1])) for one in found), found


def test_every_panel_of_the_rows_is_asked():
    assert {query.panel for query in PANELS} == TITLES
