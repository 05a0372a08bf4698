"""A loop of one's own with DeepSpeed's engine: its steps by every stage of ZeRO, and what its monitors get."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from process_store import processes

pytest.importorskip("deepspeed")

import deepspeed
from deepspeed_loop import BATCHES, SAMPLES, make_engine, train

from otel_rl.instrumentors.deepspeed import DeepSpeedInstrumentor
from otel_rl.instrumentors.torch_training import TorchTrainingInstrumentor
from otel_rl.process import process_identity
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.telemetry import Scope
from otel_rl.training import steps as training_steps
from otel_rl.training import systems
from otel_rl.training.trainer_loop import TrainerLoop

PROGRAM = Path(__file__).with_name("deepspeed_program.py")
STAGES = (0, 1, 2, 3)


@pytest.fixture(scope="module", autouse=True)
def one_rank(tmp_path_factory):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path_factory.mktemp('rank')}/store", rank=0, world_size=1
    )
    deepspeed.init_distributed(dist_backend="gloo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCAL_RANK", "0")
        yield
    torch.distributed.destroy_process_group()


@pytest.fixture(autouse=True)
def instrumented(recorded, monkeypatch):
    monkeypatch.setattr(training_steps, "may_guess", True)
    instrumentors = [TorchTrainingInstrumentor(), DeepSpeedInstrumentor()]
    for instrumentor in instrumentors:
        instrumentor.instrument(skip_dep_check=True)
    yield instrumentors
    for instrumentor in instrumentors:
        instrumentor.uninstrument()


@pytest.mark.parametrize("stage", STAGES)
def test_steps_are_those_that_the_engine_counts(stage, steps, recorded):
    engine = make_engine(stage, accumulation=2)
    train(engine)

    assert engine.global_steps == BATCHES // 2
    assert steps.numbers == list(range(1, BATCHES // 2 + 1))
    assert set(map(str, steps.phases)) == {"1", "2", "3", "4"}
    assert all(
        phases == {"data_wait": 2, "forward": 2, "backward": 2, "optimizer": 1} for phases in steps.phases.values()
    )
    of_ranks = [span for span in recorded.spans if span.name == "rl.rank.step"]
    assert {span.attributes["rl.loop.source"] for span in of_ranks} == {LoopSource.KNOWN}


def test_each_step_has_its_loss_rate_gradient_norm_and_samples(steps):
    losses = train(make_engine(1, accumulation=2))

    of_torch = [values for _, values in steps.logged]
    assert [values["loss"] for values in of_torch] == pytest.approx(
        [sum(both) / 2 for both in zip(losses[::2], losses[1::2], strict=True)]
    )
    assert {values["learning_rate"] for values in of_torch} == {0.01}
    assert all(values["grad_norm"] > 0 for values in of_torch)
    assert {values["batch_size"] for values in of_torch} == {2 * SAMPLES}


def test_a_resumed_engine_goes_on_counting_and_a_checkpoint_is_a_phase(instrumented, steps, recorded, tmp_path):
    engine = make_engine(0, accumulation=4)
    train(engine)
    engine.save_checkpoint(str(tmp_path))
    for instrumentor in instrumented:
        instrumentor.uninstrument()
        instrumentor.instrument(skip_dep_check=True)  # as in another process
    resumed = make_engine(0, accumulation=4)
    resumed.load_checkpoint(str(tmp_path))
    train(resumed)

    assert resumed.global_steps == BATCHES // 2
    assert steps.numbers == list(range(1, BATCHES // 2 + 1))
    assert recorded.span("rl.checkpoint").attributes["rl.phase"] == "checkpoint"


def test_what_its_monitors_get_is_logged_at_the_step(steps, tmp_path):
    monitor = {"csv_monitor": {"enabled": True, "output_path": str(tmp_path), "job_name": "job"}}
    train(make_engine(0, accumulation=4, **monitor))

    rates = [(number, values["Train/Samples/lr"]) for number, values in steps.logged if "Train/Samples/lr" in values]
    assert rates == [(1, 0.01), (2, 0.01)]


def test_passes_of_an_evaluated_model_begin_no_step(steps):
    engine = make_engine(0, accumulation=BATCHES)
    engine.eval()
    with torch.no_grad():
        engine(torch.randn(2, 8))
    engine.train()
    train(engine)

    assert steps.numbers == [1]
    assert steps.phases[1]["forward"] == 3  # the spans of a step; its histogram has all


def test_beneath_a_trainer_the_steps_are_the_trainers(steps):
    loop = TrainerLoop().enter()
    loop.begin_step(7, Scope("test"))
    train(make_engine(1, accumulation=2))
    loop.leave()

    assert steps.numbers == [7]
    assert steps.logged == []


def test_losses_are_the_same_digit_by_digit_without_us(instrumented):
    watched = train(make_engine(2, accumulation=2))
    for instrumentor in instrumented:
        instrumentor.uninstrument()
    assert train(make_engine(2, accumulation=2)) == watched
    for instrumentor in instrumented:
        instrumentor.instrument(skip_dep_check=True)


def test_an_engine_names_the_system(monkeypatch):
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity())
    monkeypatch.setattr(systems, "_named", 0)
    make_engine(0, accumulation=1)

    known = process_identity.current()
    assert (known.system, known.system_version, known.role) == ("deepspeed", deepspeed.__version__, "trainer")


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_two_ranks_meet_in_each_step_and_compute_the_same_as_without_us(stage, tmp_path):
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "MASTER_"))}
    environ |= {"OTEL_RL_DATA_DIR": str(tmp_path / "data"), "OTEL_RL_RAISE_INTERNAL_ERRORS": "1"}
    scripts = Path(sys.executable).parent
    torchrun = [str(scripts / "torchrun"), "--standalone", "--nproc-per-node=2", str(PROGRAM), str(stage)]

    def run(folder, *launcher):
        folder.mkdir()
        done = subprocess.run(
            [*launcher, *torchrun, str(folder)],
            env=environ, cwd=folder, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        return [(folder / f"result-{rank}.txt").read_text() for rank in (0, 1)]

    assert run(tmp_path / "watched", str(scripts / "opentelemetry-instrument")) == run(tmp_path / "plain")
    first, second = processes(tmp_path / "data")
    assert (first.rank, second.rank) == (0, 1)
    assert list(first.step_traces) == list(range(1, BATCHES // 2 + 1))
    assert first.step_traces == second.step_traces
    assert len(first.named("rl.checkpoint")) == 1
    assert first.resource["rl.system.name"] == "deepspeed"
