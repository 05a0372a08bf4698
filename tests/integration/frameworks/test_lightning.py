"""Lightning's trainer, in both of its packages: steps, phases and what it logs."""

from __future__ import annotations

import importlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from types import MethodType

import pytest
import torch
from process_store import processes

pytest.importorskip("lightning")

from lightning_models import BATCHES, adversaries, loader, regression, trainer

from otel_rl.instrumentors.lightning import LightningInstrumentor
from otel_rl.process import process_identity
from otel_rl.training import systems

PROGRAM = Path(__file__).with_name("lightning_program.py")


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def package(request):
    return importlib.import_module(request.param)


@pytest.fixture
def lightning():
    return importlib.import_module("lightning.pytorch")


@pytest.fixture(autouse=True)
def instrumented(recorded):
    instrumentor = LightningInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    yield instrumentor
    instrumentor.uninstrument()


def test_a_step_is_an_optimizer_step_with_its_phases(package, steps, tmp_path):
    fit = trainer(package, tmp_path, max_epochs=2, accumulate_grad_batches=2, num_sanity_val_steps=0)

    fit.fit(regression(package), loader(), loader(1))

    expected = {"data_wait": 2, "train": 2, "forward": 2, "backward": 2, "optimizer": 1}
    assert steps.numbers == list(range(1, 2 * BATCHES // 2 + 1))
    assert fit.global_step == BATCHES
    for number, phases in steps.phases.items():
        assert phases == {**expected, **({"evaluate": 1} if number % 3 == 0 else {})}


def test_two_optimizers_make_one_step_and_no_phase_lies_in_another(lightning, steps, recorded, tmp_path):
    fit = trainer(lightning, tmp_path)

    fit.fit(adversaries(lightning), loader())

    assert fit.global_step == 2 * BATCHES
    assert steps.numbers == list(range(1, BATCHES + 1))
    assert steps.phases[1] == {"data_wait": 1, "train": 1, "forward": 3, "backward": 2, "optimizer": 2}
    parts = [span for span in recorded.spans if span.name in ("rl.forward", "rl.backward", "rl.optimizer")]
    parts.sort(key=lambda span: span.start_time)
    assert all(one.end_time <= other.start_time for one, other in itertools.pairwise(parts))


def test_closures_of_an_optimizer_that_calls_them_again_are_one_step(lightning, steps, tmp_path):
    module = regression(lightning)
    module.configure_optimizers = lambda: torch.optim.LBFGS(module.parameters(), max_iter=2, line_search_fn=None)

    trainer(lightning, tmp_path, max_steps=2).fit(module, loader())

    assert steps.numbers == [1, 2]
    assert steps.phases[1]["forward"] == steps.phases[1]["backward"] > 1


@pytest.mark.parametrize("has_logger", [True, False])
def test_what_the_module_logs_is_logged_once_at_the_step_that_is_open(package, has_logger, steps, tmp_path):
    options = {"logger": package.loggers.CSVLogger(str(tmp_path))} if has_logger else {}
    module = regression(package, accuracy=0.5)

    trainer(package, tmp_path, num_sanity_val_steps=0, **options).fit(module, loader(), loader(1))

    of_steps = [(number, {"loss": loss, "accuracy": 0.5}) for number, loss in enumerate(module.losses, 1)]
    assert steps.logged[:-1] == of_steps
    [(number, values)] = steps.logged[-1:]
    assert (number, list(values)) == (BATCHES, ["val_loss"])


def test_an_axis_that_the_program_chooses_is_a_value_and_not_the_step(lightning, steps, tmp_path):
    module = regression(lightning, step=100.0)

    trainer(lightning, tmp_path, logger=lightning.loggers.CSVLogger(str(tmp_path)), max_steps=1).fit(module, loader())

    assert steps.logged == [(1, {"loss": module.losses[0], "step": 100.0})]


def test_a_resumed_training_goes_on_counting(lightning, steps, recorded, tmp_path):
    first = trainer(lightning, tmp_path, max_steps=2)
    first.fit(regression(lightning), loader())
    first.save_checkpoint(tmp_path / "two.ckpt")
    assert [span.name for span in recorded.spans if span.name == "rl.checkpoint"] == ["rl.checkpoint"]

    resumed = trainer(lightning, tmp_path, max_steps=4, max_epochs=2)
    resumed.fit(regression(lightning), loader(), ckpt_path=tmp_path / "two.ckpt")

    assert steps.numbers == [1, 2, 3, 4]


def test_a_checkpoint_that_a_good_validation_calls_for_is_no_part_of_it(lightning, steps, tmp_path):
    saving = lightning.callbacks.ModelCheckpoint(tmp_path, monitor="val_loss")
    options = {"enable_checkpointing": True, "callbacks": [saving], "num_sanity_val_steps": 0}

    trainer(lightning, tmp_path, **options).fit(regression(lightning), loader(), loader(1))

    assert {name: steps.phases[BATCHES][name] for name in ("evaluate", "checkpoint")} == {
        "evaluate": 1,
        "checkpoint": 1,
    }


def test_an_evaluation_without_training_has_no_step(lightning, steps, tmp_path):
    trainer(lightning, tmp_path).validate(regression(lightning), loader(), verbose=False)

    assert steps.numbers == []
    assert steps.phases == {None: {"evaluate": 1}}


def test_the_step_in_which_the_program_raises_ends_and_the_exception_stays_itself(lightning, steps, recorded, tmp_path):
    error = KeyError("in the module")
    module = regression(lightning)

    def fails(*_):
        raise error

    module.training_step = fails
    with pytest.raises(KeyError) as raised:
        trainer(lightning, tmp_path).fit(module, loader())

    assert raised.value is error
    assert steps.numbers == [1]
    assert recorded.span("rl.forward").attributes["error.type"] == "KeyError"


def test_a_module_that_asks_for_batches_itself_waits_inside_of_its_step(lightning, steps, recorded, tmp_path):
    module = regression(lightning)
    whole = module.training_step

    def asks(self, dataloader_iter):
        batch, number, _ = next(dataloader_iter)
        return whole(batch, number)

    module.training_step = MethodType(asks, module)
    trainer(lightning, tmp_path, max_steps=2).fit(module, loader())

    assert steps.numbers == [1, 2]
    waits = [span for span in recorded.spans if span.name == "rl.data_wait"]
    of_ranks = {span.context.span_id for span in recorded.spans if span.name == "rl.rank.step"}
    assert {span.parent.span_id for span in waits} == of_ranks


def test_an_epoch_that_the_module_skips_adds_no_step(lightning, steps, tmp_path):
    module = regression(lightning)
    module.on_train_batch_start = lambda *_: -1 if module.trainer.current_epoch == 0 else None

    trainer(lightning, tmp_path, max_epochs=2).fit(module, loader())

    assert steps.numbers == list(range(1, BATCHES + 1))


def test_losses_are_the_same_digit_by_digit_without_us(lightning, instrumented, tmp_path):
    modules = [regression(lightning), regression(lightning)]
    trainer(lightning, tmp_path, accumulate_grad_batches=2).fit(modules[0], loader())
    instrumented.uninstrument()
    trainer(lightning, tmp_path, accumulate_grad_batches=2).fit(modules[1], loader())
    instrumented.instrument(skip_dep_check=True)

    assert modules[0].losses == modules[1].losses


def test_the_trainer_names_the_system(package, monkeypatch, tmp_path):
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity())
    monkeypatch.setattr(systems, "_named", 0)

    trainer(package, tmp_path)

    known = process_identity.current()
    assert (known.system, known.system_version, known.role) == ("lightning", package.__version__, "trainer")


@pytest.mark.slow
def test_both_ranks_that_lightning_starts_meet_in_one_trace_per_step(tmp_path):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environ |= {"OTEL_RL_DATA_DIR": str(tmp_path / "data"), "OTEL_RL_RAISE_INTERNAL_ERRORS": "1"}
    instrument = Path(sys.executable).with_name("opentelemetry-instrument")

    def run(*launcher):
        command = [*launcher, sys.executable, str(PROGRAM), str(tmp_path)]
        done = subprocess.run(
            command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    assert run() == run(str(instrument))
    first, second = processes(tmp_path / "data")
    assert (first.rank, second.rank) == (0, 1)
    assert list(first.step_traces) == [1, 2, 3, 4]
    assert first.step_traces == second.step_traces
    assert len(set(first.step_traces.values())) == len(first.step_traces)
