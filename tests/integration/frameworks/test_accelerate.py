"""A loop of one's own with Accelerate: what it logs and saves, and that beneath a trainer nothing is added."""

from __future__ import annotations

import inspect

import accelerate
import pytest
import torch
import transformers
from torch.utils.data import DataLoader, TensorDataset

from otel_rl.instrumentors.accelerate import AccelerateInstrumentor
from otel_rl.instrumentors.torch_training import TorchTrainingInstrumentor
from otel_rl.instrumentors.transformers import TransformersInstrumentor
from otel_rl.process import process_identity
from otel_rl.telemetry import Scope
from otel_rl.training import scalars, systems
from otel_rl.training import steps as training_steps
from otel_rl.training.guessed_loop import GuessedLoop
from otel_rl.training.trainer_loop import TrainerLoop

BATCHES, ACCUMULATION = 8, 2


@pytest.fixture(autouse=True)
def instrumented(recorded):
    instrumentor = AccelerateInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    yield instrumentor
    instrumentor.uninstrument()
    accelerate.Accelerator._shared_state = {}


@pytest.fixture
def unknown(monkeypatch):
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity())
    monkeypatch.setattr(systems, "_named", 0)


def train(directory):
    """The loop of Accelerate's examples; returns its losses."""
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATION)
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    data = DataLoader(TensorDataset(torch.randn(4 * BATCHES, 3), torch.randn(4 * BATCHES, 1)), batch_size=4)
    model, optimizer, data = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.1), data)
    losses = []
    for features, targets in data:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(features), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        if accelerator.sync_gradients:
            accelerator.log({"train_loss": loss.item()}, step=len(losses))
    accelerator.save_state(str(directory / "state"))
    return losses


def test_what_is_logged_through_it_is_recorded_without_a_tracker(recorded, tmp_path):
    losses = train(tmp_path)

    bodies = [dict(event.body) for event in recorded.events("rl.step") if "train_loss" in event.body]
    assert bodies == [{"train_loss": loss} for loss in losses[1::ACCUMULATION]]


def test_trackers_that_it_hands_a_value_to_do_not_record_it_again(recorded):
    class Tracker(accelerate.tracking.GeneralTracker):
        name, requires_logging_directory, tracker = "own", False, None

        def store_init_configuration(self, values):
            pass

        def log(self, values, step=None, **_):
            scalars.sink.log(Scope("other"), scalars.Source.WANDB, step, {**values, "more": 1})

    accelerator = accelerate.Accelerator(cpu=True, log_with=Tracker())
    accelerator.init_trackers("test")
    accelerator.log({"accuracy": 0.5}, step=7)

    [event] = recorded.events("rl.step")
    assert dict(event.body) == {"accuracy": 0.5}


def test_a_guessed_step_has_the_gradient_norm(recorded, steps, tmp_path, monkeypatch):
    monkeypatch.setattr(training_steps, "may_guess", True)
    guessing = TorchTrainingInstrumentor()
    guessing.instrument(skip_dep_check=True)
    train(tmp_path)
    guessing.uninstrument()

    assert steps.numbers == list(range(1, BATCHES // ACCUMULATION + 1))
    assert (
        len([values for _, values in steps.logged if values.get("torch/grad_norm", 0) > 0]) == BATCHES // ACCUMULATION
    )


def test_a_step_that_is_known_goes_before_the_number_that_the_program_gives(recorded):
    accelerator = accelerate.Accelerator(cpu=True)
    loop = TrainerLoop().enter()
    loop.begin_step(3, Scope("test"))
    accelerator.log({"accuracy": 0.5}, step=900)
    loop.leave()

    [event] = recorded.events("rl.step")
    assert event.attributes["rl.loop.iteration"] == 3


def test_the_step_that_the_program_gives_goes_before_a_guessed_one(recorded, monkeypatch):
    monkeypatch.setattr(training_steps, "may_guess", True)
    accelerator = accelerate.Accelerator(cpu=True)
    loop = GuessedLoop()
    loop.begin(1, Scope("test"))
    accelerator.log({"accuracy": 0.5}, step=10_000)
    accelerator.log({"recall": 0.5})
    loop.finish()
    loop.retire()

    assert [event.attributes["rl.loop.iteration"] for event in recorded.events("rl.step")] == [10_000, 1]


def test_saving_the_state_is_one_checkpoint(recorded, tmp_path):
    train(tmp_path)

    assert recorded.span("rl.checkpoint").attributes["rl.phase"] == "checkpoint"
    assert (tmp_path / "state").is_dir()


def test_an_accelerator_names_the_system_and_a_trainer_above_it_wins(unknown):
    accelerator = accelerate.Accelerator(cpu=True)
    assert process_identity.current().system == "accelerate"
    assert process_identity.current().system_version == accelerate.__version__

    systems.configured(int, "transformers", "5", "trainer")
    systems.configured(type(accelerator), "accelerate", "1", "trainer", is_layer=True)
    assert process_identity.current().system == "transformers"


def test_losses_are_the_same_digit_by_digit_without_us(instrumented, tmp_path):
    watched = train(tmp_path / "watched")
    instrumented.uninstrument()
    assert train(tmp_path / "plain") == watched
    instrumented.instrument(skip_dep_check=True)


@pytest.mark.skipif(
    "keep_torch_compile" not in inspect.signature(accelerate.Accelerator.unwrap_model).parameters,
    reason="Transformers needs a newer Accelerate for its Trainer",
)
def test_beneath_a_trainer_nothing_is_counted_twice(recorded, unknown, steps, tmp_path):
    trainers = [TorchTrainingInstrumentor(), TransformersInstrumentor()]
    for instrumentor in trainers:
        instrumentor.instrument(skip_dep_check=True)
    features = [{"input": torch.randn(3), "labels": torch.randn(1)} for _ in range(8)]

    class Regression(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def forward(self, input, labels):  # noqa: A002 - a key of the batch
            return {"loss": torch.nn.functional.mse_loss(self.layer(input), labels)}

    arguments = transformers.TrainingArguments(
        str(tmp_path), max_steps=2, per_device_train_batch_size=4, logging_steps=1, save_strategy="no",
        report_to="none", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    transformers.Trainer(Regression(), arguments, train_dataset=features).train()
    for instrumentor in trainers:
        instrumentor.uninstrument()

    assert steps.numbers == [1, 2]
    assert [number for number, values in steps.logged if "loss" in values] == [1, 2]
    assert steps.phases[1]["backward"] == steps.phases[1]["optimizer"] == 1
    assert process_identity.current().system == "transformers"
