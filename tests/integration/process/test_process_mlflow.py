"""Programs that write to an MLflow server: a stand-in here, a real one where `mlflow` is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version
from process_support import closed_port
from support.mlflow_server import Fault, StandIn, TrackedRuns, pairs, real_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from process_support import Collector, Programs


def _takes_spans() -> bool:
    """Return whether an MLflow is installed that has the OTLP route."""
    try:
        return Version(version("mlflow")) >= Version("3.6")
    except PackageNotFoundError:
        return False


_NEEDS_MLFLOW = pytest.mark.skipif(not _takes_spans(), reason="mlflow 3.6 or newer is not installed here")
_TESTS = Path(__file__).parents[2]
TRAINING = """
import sys, otel_rl
for number in range(1, 4):
    with otel_rl.step(number), otel_rl.phase("train"):
        otel_rl.metric("loss", 1 / number)
        otel_rl.metric("pass@1", number)
if "--fail" in sys.argv:
    raise ValueError("on purpose")
"""
#: A loaded machine, and a real server over sqlite, take longer than a user would wait.
PATIENT = {"OTEL_RL_MLFLOW": "1", "OTEL_RL_EXIT_TIMEOUT": "60"}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrackedRuns]:
    """`mlflow server`."""
    with real_server(tmp_path_factory.mktemp("mlflow")) as server:
        yield server


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    """The stand-in."""
    server = StandIn()
    yield server
    server.stop()


@pytest.fixture(params=["stand-in", pytest.param("real", marks=[pytest.mark.slow, _NEEDS_MLFLOW])])
def mlflow(request: pytest.FixtureRequest) -> TrackedRuns:
    """Either server."""
    server: TrackedRuns = request.getfixturevalue("real" if request.param == "real" else "stand_in")
    return server


def target(server: TrackedRuns, name: str, **further: str) -> dict[str, str]:
    """Variables of a program that writes to ``server``."""
    return {**PATIENT, "MLFLOW_TRACKING_URI": server.url, "MLFLOW_EXPERIMENT_NAME": name, **further}


class TestProgram:
    def test_it_leaves_values_parameters_tags_status_and_traces(self, programs: Programs, mlflow: TrackedRuns) -> None:
        done = programs.instrumented(TRAINING, "--lr", "1e-5", "--api_key=verysecret", **target(mlflow, "trained"))

        assert (done.code, done.out) == (0, "")
        run = mlflow.run("trained")
        assert mlflow.curve(run, "loss") == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
        assert mlflow.curve(run, "pass_1") == [(1, 1.0), (2, 2.0), (3, 3.0)]
        parameters, tags = pairs(run["data"]["params"]), pairs(run["data"]["tags"])
        assert (parameters["lr"], parameters["api_key"]) == ("1e-5", "***")
        assert "verysecret" not in str(run)
        assert run["info"]["status"] == "FINISHED"
        assert [directory.parent.name for directory in programs.store.directories] == [tags["otel_rl.run_id"]]
        steps = {span["traceId"] for span in programs.store.spans() if span["name"].startswith("rl.loop")}
        assert tags["otel_rl.last_step.trace_id"] in steps
        assert steps <= mlflow.traces("trained")

    def test_one_that_fails_leaves_a_failed_run(self, programs: Programs, mlflow: TrackedRuns) -> None:
        assert programs.instrumented(TRAINING, "--fail", **target(mlflow, "failed")).code == 1
        assert mlflow.run("failed")["info"]["status"] == "FAILED"

    def test_a_given_run_is_joined_and_its_end_left_alone(self, programs: Programs, mlflow: TrackedRuns) -> None:
        run_id = mlflow.new_run("given")
        programs.instrumented(TRAINING, **target(mlflow, "unused", MLFLOW_RUN_ID=run_id))

        run = mlflow.run("given")
        assert run["info"]["run_id"] == run_id
        assert run["info"]["status"] == "RUNNING"
        assert len(mlflow.curve(run, "loss")) == 3

    def test_without_the_variable_nothing_is_asked(self, programs: Programs, stand_in: StandIn) -> None:
        programs.instrumented(TRAINING, **target(stand_in, "unasked", OTEL_RL_MLFLOW="0"))
        assert stand_in.requests == []

    def test_spans_go_to_the_collector_where_there_is_one(
        self, programs: Programs, stand_in: StandIn, collector: Collector
    ) -> None:
        to_collector = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        }
        programs.instrumented(TRAINING, **target(stand_in, "beside", **to_collector))

        assert stand_in.spans == []
        assert len(stand_in.curve(stand_in.run("beside"), "loss")) == 3
        assert any(name.startswith("rl.loop") for name in collector.spans())

    def test_a_forked_child_writes_no_values_and_ends_no_run(self, programs: Programs, stand_in: StandIn) -> None:
        forking = """
import os, otel_rl
with otel_rl.step(1):
    otel_rl.metric("loss", 1.0)
otel_rl.flush(60)
child = os.fork()
if child == 0:
    with otel_rl.step(2):
        otel_rl.metric("loss", 2.0)
    raise SystemExit(3)
os.waitpid(child, 0)
with otel_rl.step(3):
    otel_rl.metric("loss", 3.0)
"""
        assert programs.instrumented(forking, **target(stand_in, "forked")).code == 0
        run = stand_in.run("forked")
        assert stand_in.curve(run, "loss") == [(1, 1.0), (3, 3.0)]
        assert run["info"]["status"] == "FINISHED"
        assert stand_in.requests.count("/api/2.0/mlflow/runs/update") == 1


class TestServer:
    def test_that_hangs_holds_up_no_end(self, programs: Programs, stand_in: StandIn) -> None:
        stand_in.answers.clear()
        variables = target(stand_in, "hanging", OTEL_RL_EXIT_TIMEOUT="0.5")
        done = programs.instrumented(TRAINING, **variables)

        assert done.code == 0
        assert "could not be delivered to http://127.0.0.1" in done.err
        assert "OTEL_RL_EXIT_TIMEOUT" in done.err

    def test_that_nobody_started_costs_one_line_with_what_to_do(self, programs: Programs) -> None:
        away = {**PATIENT, "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{closed_port()}", "OTEL_RL_EXIT_TIMEOUT": "10"}
        done = programs.instrumented(TRAINING, **away)

        assert done.code == 0
        [line] = [line for line in done.err.splitlines() if "could not be delivered" in line]
        assert "check that `mlflow server` answers there" in line
        assert "6 metric points" in line

    def test_that_starts_late_gets_all_of_it(self, programs: Programs) -> None:
        waiting = f"""
import os, sys, time, otel_rl
sys.path.insert(0, {str(_TESTS)!r})
with otel_rl.step(1):
    otel_rl.metric("loss", 1.0)
assert not otel_rl.flush(1)
from support.mlflow_server import StandIn
server = StandIn(int(os.environ["MLFLOW_TRACKING_URI"].rpartition(":")[2]))
with otel_rl.step(2):
    otel_rl.metric("loss", 2.0)
assert server.took.wait(60)
print(otel_rl.flush(60), server.curve(server.run("late"), "loss"))
"""
        address = f"http://127.0.0.1:{closed_port()}"
        variables = {**PATIENT, "MLFLOW_TRACKING_URI": address, "MLFLOW_EXPERIMENT_NAME": "late"}
        done = programs.instrumented(waiting, **variables)

        assert (done.code, done.out.strip()) == (0, "True [(1, 1.0), (2, 2.0)]"), done.err

    def test_that_refuses_is_named_with_the_answer(self, programs: Programs, stand_in: StandIn) -> None:
        stand_in.faults.append(Fault("", 401))
        done = programs.instrumented(TRAINING, **target(stand_in, "refused"))

        assert done.code == 0
        assert "code: 401" in done.err
        assert "MLFLOW_TRACKING_TOKEN" in done.err

    def test_of_a_variable_without_a_server_is_asked_for(self, programs: Programs) -> None:
        done = programs.instrumented(TRAINING, **PATIENT)
        assert done.code == 0
        assert "set MLFLOW_TRACKING_URI to the http address" in done.err


@_NEEDS_MLFLOW
@pytest.mark.slow
def test_a_program_that_logs_to_mlflow_itself_has_nothing_twice(programs: Programs, real: TrackedRuns) -> None:
    program = """
import mlflow, otel_rl
with mlflow.start_run() as run:
    for number in range(1, 4):
        with otel_rl.step(number):
            otel_rl.metric("loss", 1 / number)
            otel_rl.metric("ours", number)
        mlflow.log_metric("loss", 1 / number, step=number)
    otel_rl.flush(60)
"""
    done = programs.instrumented(program, timeout=400, **target(real, "own", MLFLOW_DISABLE_TELEMETRY="true"))

    assert done.code == 0, done.err
    run = real.run("own")
    assert set(pairs(run["data"]["metrics"])) == {"loss", "otel_rl/ours"}
    assert len(real.curve(run, "loss")) == 3
    assert run["info"]["status"] == "FINISHED"


@_NEEDS_MLFLOW
@pytest.mark.slow
def test_figures_of_steps_reach_the_programs_own_run(programs: Programs, real: TrackedRuns) -> None:
    program = """
import mlflow, otel_rl
with mlflow.start_run():
    for number in range(1, 4):
        with otel_rl.step(number), otel_rl.phase("train"):
            pass
        mlflow.log_metric("loss", 1 / number, step=number)
"""
    variables = {"MLFLOW_DISABLE_TELEMETRY": "true", "OTEL_RL_WRITE_BACK": "mlflow", "OTEL_RL_MLFLOW": "0"}
    done = programs.instrumented(program, timeout=400, **target(real, "figures", **variables))

    assert done.code == 0, done.err
    run = real.run("figures")
    assert [step for step, _ in real.curve(run, "otel_rl/phase/train")] == [1, 2, 3]
    assert [step for step, _ in real.curve(run, "loss")] == [1, 2, 3]
    assert run["info"]["status"] == "FINISHED"
    assert run["data"].get("params", []) == []
