"""What every trainer class meets beside plain steps: an early stop, an exception, a resumed run, endless data."""

from __future__ import annotations

from collections import Counter

import every_trainer
import pytest
import runs
import transformers
from datasets import Dataset
from torch.optim.optimizer import register_optimizer_step_pre_hook

from otel_rl.training import steps

OFTEN = {"GRPO"}
#: Trainers that may use their samples several times, and those that take data without a length.
REUSING = {"GMPO", "GRPO", "RLOO", "SDFT", "SDPO"}
STREAMING = {"DPO", "Distillation", "GMPO", "GRPO", "KTO", "RLOO", "Reward", "SFT"}

pytestmark = runs.LATEST


def iterations(recorded, name="rl.loop"):
    found = [span for span in recorded.spans if span.name == name]
    return [span.attributes["rl.loop.iteration"] for span in sorted(found, key=lambda span: span.start_time)]


class Stopping(transformers.TrainerCallback):
    """Stops between two micro-batches of the second step."""

    def on_substep_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step == 1


@pytest.mark.parametrize("kind", runs.every_class(OFTEN))
def test_an_early_stop_and_an_exception_inside_a_step_close_it(instrumented, recorded, tmp_path, kind):
    trainer = every_trainer.make(kind, tmp_path, steps=3, gradient_accumulation_steps=2)
    trainer.add_callback(Stopping)
    trainer.train()

    assert iterations(recorded) == [1, 2]
    assert not [span for span in recorded.spans if "error.type" in span.attributes]
    assert steps.where().step is None

    recorded.clear()
    trainer.remove_callback(Stopping)
    error = ArithmeticError("secret")

    def fail(*_):
        if trainer.state.global_step == 1:
            raise error

    hook = register_optimizer_step_pre_hook(fail)
    try:
        with pytest.raises(ArithmeticError) as caught:
            trainer.train()
    finally:
        hook.remove()

    assert caught.value is error
    failed = Counter(span.name for span in recorded.spans if span.attributes.get("error.type") == "ArithmeticError")
    assert failed == Counter(["rl.loop", "rl.rank.step", "rl.train", "rl.optimizer"])
    assert steps.where().step is None
    assert not any("secret" in span.to_json() for span in recorded.spans)


@pytest.mark.parametrize("kind", runs.every_class(OFTEN))
def test_a_resumed_run_goes_on_with_the_next_number(instrumented, recorded, tmp_path, kind):
    every_trainer.make(kind, tmp_path, steps=2, save_strategy="steps", save_steps=2).train()
    assert iterations(recorded) == [1, 2]
    assert iterations(recorded, "rl.checkpoint") == [2]

    recorded.clear()
    every_trainer.make(kind, tmp_path, steps=3).train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
    assert iterations(recorded) == [3]
    assert recorded.metrics()["rl.train.steps"][0].value == 1


@pytest.mark.parametrize("kind", runs.every_class(OFTEN, REUSING))
def test_reusing_samples_is_training_without_sampling(instrumented, recorded, tmp_path, kind):
    every_trainer.make(kind, tmp_path, steps=4, num_iterations=2).train()

    assert iterations(recorded) == [1, 2, 3, 4]
    assert sorted(set(iterations(recorded, "rl.sample"))) == [1, 3]
    metrics = recorded.metrics()
    assert (metrics["rl.sample.duration"][0].count, metrics["rl.train.duration"][0].count) == (2, 4)


@pytest.mark.parametrize("kind", runs.every_class(OFTEN, STREAMING))
def test_data_that_ends_early_begins_no_steps_and_waits(instrumented, recorded, tmp_path, kind):
    rows = every_trainer.RECIPES[kind.__name__].data[:8]
    trainer = every_trainer.make(kind, tmp_path, steps=7, data=Dataset.from_list(rows).to_iterable_dataset())
    trainer.train()

    assert iterations(recorded) == list(range(1, 8))
    assert trainer.state.epoch >= 1
    counts = Counter(span.name for span in recorded.spans)
    assert counts["rl.data_wait"] == counts["rl.rank.step"] == 7
