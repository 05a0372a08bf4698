"""Weights & Biases, MLflow, Trackio and SwanLab: runs that log."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from otel_rl.telemetry import drops
from otel_rl.training import scalars

if not any(importlib.util.find_spec(library) for library in ("wandb", "mlflow", "trackio", "swanlab")):
    pytest.skip("none of these trackers is in the test environment, see tests/versions.toml", allow_module_level=True)

WANDB, MLFLOW = ("wandb", "wandb"), ("mlflow", "mlflow")
TRACKIO, SWANLAB = ("trackio", "trackio"), ("swanlab", "swanlab")


class Run:
    """A run of one of the trackers that take a dictionary."""

    def __init__(self, library, folder, **config):
        self.library = library
        self._folder = folder
        self.begin(config)

    def begin(self, config):
        if self.library == "wandb":
            import wandb

            self._run = wandb.init(project="test", dir=str(self._folder), config=config)
            self.log, self.finish = self._run.log, self._run.finish
        elif self.library == "trackio":
            import trackio

            options = {"auto_log_gpu": False, "auto_log_cpu": False}
            trackio.init(project="test", config=config, embed=False, **_known(trackio.init, options))
            self.log, self.finish = trackio.log, trackio.finish
        else:
            import swanlab

            folder = {"logdir": str(self._folder / "swanlog"), "log_dir": str(self._folder / "swanlog")}
            swanlab.init(project="test", mode="offline", config=config, **_known(swanlab.init, folder))
            self.log, self.finish = swanlab.log, swanlab.finish


def _known(function, options):
    import inspect

    return {name: value for name, value in options.items() if name in inspect.signature(function).parameters}


of_dictionaries = pytest.mark.parametrize(
    "instrumented", [[WANDB], [TRACKIO], [SWANLAB]], indirect=True, ids=["wandb", "trackio", "swanlab"]
)


@pytest.fixture
def run(instrumented, tmp_path):
    made = Run(instrumented[0].library, tmp_path, lr=0.1, nested={"depth": 2}, api_key="abc123def")
    yield made
    made.finish()


@of_dictionaries
def test_values_are_recorded_at_the_step_that_is_given(run, logged):
    for step in (5, 6):
        run.log({"train/loss": 1 / step, "reward": step}, step=step)
    assert logged.calls == [(5, {"train/loss": 0.2, "reward": 5}), (6, {"train/loss": 1 / 6, "reward": 6})]
    assert logged.gauges["reward"] == 6


@of_dictionaries
def test_without_a_step_the_tracker_counts(run, logged):
    for _ in range(3):
        run.log({"loss": 1.0})
    run.log({"loss": 1.0}, step=10)
    run.log({"after": 2.0})
    assert [step for step, _ in logged.column("loss")] == [0, 1, 2, 10]
    # wandb adds to a step until the next one begins.
    assert logged.column("after") == [(11 if run.library != "wandb" else logged.column("after")[0][0], 2.0)]


@of_dictionaries
@pytest.mark.parametrize(
    "key", ["step", "global_step", "train/global_step", "trainer/global_step", "timesteps", "policy_version", "update"]
)
def test_a_step_among_the_values_is_the_step_and_no_value(run, logged, key):
    run.log({"loss": 0.5, key: 400})
    assert logged.calls == [(400, {"loss": 0.5})]


@of_dictionaries
def test_the_open_step_of_the_program_counts_before_the_tracker(run, logged, in_step):
    run.log({"loss": 0.5})
    assert logged.column("loss") == [(17, 0.5)]


@of_dictionaries
def test_parameters_are_recorded_without_secrets(run, logged):
    assert logged.parameters.get("lr") == 0.1
    assert logged.parameters.get("nested.depth") == 2
    assert logged.parameters.get("api_key") == "***"


@of_dictionaries
def test_what_is_no_number_stays_in_the_record_or_is_counted(run, logged):
    run.log({"broken": math.nan, "note": "text", "list": [1, 2], "kl": 0.5, "nested": {"acc": 1}}, step=1)
    [(step, body)] = logged.calls
    assert step == 1
    assert math.isnan(body["broken"])
    assert ("note" in body, body["kl"]) == (False, 0.5)
    assert body["nested.acc" if run.library == "wandb" else "nested/acc"] == 1
    assert logged.gauges.keys() >= {"kl"}
    assert "broken" not in logged.gauges
    assert drops.snapshot() == {("metrics", "non_finite"): 1, ("logs", "unsupported_type"): 1, ("logs", "text"): 1}


@of_dictionaries
def test_pictures_and_tables_are_counted_by_their_kind(run, logged):
    np = pytest.importorskip("numpy")
    module = sys.modules[run.library]
    shown = {"picture": module.Image(np.zeros((4, 4, 3), dtype=np.uint8))}
    if run.library != "swanlab":
        shown["counts"] = module.Histogram([1.0, 2.0, 3.0])
    run.log({"loss": 1.0, **shown}, step=1)
    assert logged.calls == [(1, {"loss": 1.0})]
    counted = {("logs", "image"): 1} | ({("logs", "histogram"): 1} if "counts" in shown else {})
    assert drops.snapshot() == counted


@of_dictionaries
def test_of_5000_keys_1024_are_recorded_and_the_others_counted(run, logged):
    run.log({f"key/{number}": float(number) for number in range(5000)}, step=1)
    [(_, body)] = logged.calls
    assert len(body) == 1024
    assert drops.snapshot()["logs", "value_limit"] == 5000 - 1024
    assert 0 < len([key for key in logged.gauges if key.startswith("key/")]) < 300
    assert drops.snapshot()["metrics", "cardinality"] > 0


@of_dictionaries
def test_steps_that_go_back_and_a_key_twice_at_a_step_are_recorded_as_they_are(run, logged):
    for step, value in ((5, 1.0), (5, 2.0), (2, 3.0)):
        run.log({"loss": value}, step=step)
    assert logged.column("loss") == [(5, 1.0), (5, 2.0), (2, 3.0)]


@of_dictionaries
def test_what_the_program_changes_after_the_call_is_not_recorded(run, logged):
    values = {"loss": 1.0}
    run.log(values, step=1)
    assert values == {"loss": 1.0}
    values["loss"] = 2.0
    assert logged.column("loss") == [(1, 1.0)]


@of_dictionaries
def test_our_own_calls_are_not_recorded(run, logged):
    with scalars.not_captured():
        run.log({"health": 1.0}, step=1)
    assert logged.calls == []


@pytest.mark.parametrize("instrumented", [[WANDB]], indirect=True)
def test_a_disabled_run_of_wandb_is_recorded(instrumented, logged, monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    run = Run("wandb", tmp_path, lr=0.1)
    run.log({"loss": 1.0}, step=3)
    run.finish()
    assert logged.column("loss") == [(3, 1.0)]
    assert logged.parameters == {"lr": 0.1}


@pytest.mark.parametrize("instrumented", [[WANDB]], indirect=True)
def test_a_resumed_run_counts_on(instrumented, logged, tmp_path):
    run = Run("wandb", tmp_path)
    # As the server answers for a run that is resumed; there is none offline.
    setattr(run._run, "_local_step" if hasattr(run._run, "_local_step") else "_step", 40)
    run.log({"loss": 1.0})
    run.finish()
    assert logged.column("loss") == [(40, 1.0)]


@pytest.mark.parametrize("instrumented", [[WANDB]], indirect=True)
def test_changes_of_the_configuration_of_wandb_are_recorded(run, logged):
    run._run.config.update({"epochs": 3})
    run._run.config["batch"] = 8
    assert {"epochs": 3, "batch": 8}.items() <= logged.parameters.items()
    assert not any(name.startswith("_wandb") for name in logged.parameters)


@pytest.mark.parametrize("instrumented", [[MLFLOW]], indirect=True)
class TestMLflow:
    """MLflow logs one value or several, each with a step of its own."""

    @pytest.fixture(autouse=True)
    def run(self, instrumented):
        import mlflow

        with mlflow.start_run():
            yield

    def test_one_metric_and_several_are_recorded_at_their_steps(self, logged):
        import mlflow

        mlflow.log_metric("loss", 0.5, step=1)
        mlflow.log_metric("loss", 0.4, step=2, synchronous=False).wait()
        mlflow.log_metrics({"kl": 0.1, "entropy": 2.0}, step=3)
        assert logged.calls == [(1, {"loss": 0.5}), (2, {"loss": 0.4}), (3, {"kl": 0.1, "entropy": 2.0})]

    def test_metrics_of_several_steps_in_one_batch_are_one_record_per_step(self, logged):
        import mlflow
        from mlflow.entities import Metric

        run_id = mlflow.active_run().info.run_id
        metrics = [Metric("loss", 1.0, 1, 1), Metric("loss", 0.5, 2, 2), Metric("kl", 0.1, 2, 2)]
        mlflow.MlflowClient().log_batch(run_id=run_id, metrics=metrics)
        assert logged.calls == [(1, {"loss": 1.0}), (2, {"loss": 0.5, "kl": 0.1})]

    def test_without_a_step_it_is_0_as_in_mlflow(self, logged):
        import mlflow

        mlflow.log_metric("accuracy", 0.5)
        mlflow.log_metrics({"f1": 0.5, "recall": 0.25})
        assert logged.calls == [(0, {"accuracy": 0.5}), (0, {"f1": 0.5, "recall": 0.25})]

    def test_the_open_step_counts_where_the_program_gives_none(self, logged, in_step):
        import mlflow

        mlflow.log_metric("accuracy", 0.5)
        mlflow.log_metric("given", 0.5, step=3)
        assert [step for step, _ in logged.column("accuracy") + logged.column("given")] == [17, 3]

    def test_a_step_that_is_no_whole_number_is_none(self, logged):
        import mlflow

        for step in (1.5, 3.0):
            # Not every store of MLflow takes them.
            with suppress(mlflow.exceptions.MlflowException):
                mlflow.log_metric("loss", 0.5, step=step)
        assert logged.column("loss") == [(0, 0.5), (3, 0.5)]

    def test_parameters_are_recorded_without_secrets(self, logged):
        import mlflow

        mlflow.log_params({"lr": 0.1, "hf_token": "hf_abcdefghijklmnopqrstuvwx"})
        mlflow.log_param("seed", 7)
        assert {str(name): str(value) for name, value in logged.parameters.items()} == {
            "lr": "0.1",
            "hf_token": "***",
            "seed": "7",
        }
        assert logged.calls == []

    def test_metrics_of_the_machine_are_left_out(self, logged):
        import mlflow

        mlflow.log_metrics({"system/cpu_utilization_percentage": 3.0, "loss": 1.0}, step=1)
        mlflow.log_metric("system/gpu", 3.0, step=1)
        assert logged.calls == [(1, {"loss": 1.0})]

    def test_our_own_calls_are_not_recorded(self, logged):
        import mlflow

        with scalars.not_captured():
            mlflow.log_metric("health", 1.0, step=1)
            mlflow.log_metrics({"a": 1.0, "b": 1.0}, step=1)
        assert logged.calls == []

    def test_a_call_that_mlflow_refuses_raises_what_it_raised_before(self, logged):
        import mlflow

        with pytest.raises(mlflow.exceptions.MlflowException):
            mlflow.log_metric("not [allowed]", 1.0)


@pytest.mark.parametrize("instrumented", [[MLFLOW, WANDB, TRACKIO]], indirect=True)
def test_of_trackers_with_the_same_values_one_is_recorded(instrumented, logged, tmp_path):
    import mlflow

    runs = [Run("wandb", tmp_path), Run("trackio", tmp_path)]
    with mlflow.start_run():
        for step in range(1, 4):
            runs[0].log({"train/loss": 1.0 / step, "of wandb": 1.0}, step=step)
            mlflow.log_metrics({"loss": 1.0 / step, "of mlflow": 1.0}, step=step)
            runs[1].log({"train/loss": 1.0 / step}, step=step)
    for run in runs:
        run.finish()
    assert logged.column("train/loss") == [(1, 1.0), (2, 0.5), (3, 1 / 3)]
    assert logged.column("loss") == []
    assert len(logged.column("of wandb")) == len(logged.column("of mlflow")) == 3


@pytest.mark.parametrize("instrumented", [[WANDB]], indirect=True)
def test_a_forked_child_records_and_ends_as_without_us(run, logged):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run.log({"loss": 2.0}, step=2)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert logged.calls == []


PROGRAM = """
import {module}
from importlib.metadata import entry_points
print("ran")
"""


@pytest.mark.parametrize("library", ["wandb", "mlflow", "trackio", "swanlab"])
def test_a_program_with_a_tracker_prints_what_it_printed_before(library, tmp_path):
    pytest.importorskip(library)
    program = PROGRAM.format(module=library)
    plain = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    instrument = str(Path(sys.executable).with_name("opentelemetry-instrument"))
    observed = subprocess.run(
        [instrument, sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OTEL_RL_DATA_DIR": str(tmp_path), "OTEL_RL_QUIET": "true"},
    )
    assert (observed.returncode, observed.stdout) == (plain.returncode, plain.stdout)
