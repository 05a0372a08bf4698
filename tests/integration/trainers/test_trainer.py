"""The plain Transformers ``Trainer`` in this process: phases, scalars, failures, and exact restoring."""

from __future__ import annotations

import pickle
from collections import Counter

import accelerate.accelerator
import pytest
import torch
import transformers
import transformers.trainer
import transformers.trainer_callback
import transformers.training_args
import trl.extras.profiling
import trl.trainer.grpo_trainer
import trl.trainer.rloo_trainer
from tiny_model import make_model, make_tokenizer

from otel_rl.instrumentors.transformers import TransformersInstrumentor
from otel_rl.instrumentors.trl import TRLInstrumentor
from otel_rl.training import steps, systems
from otel_rl.training.trainer_loop import SPANS_PER_STEP

OWNERS = (
    transformers.trainer.Trainer,
    transformers.trainer_callback.CallbackHandler,
    transformers.training_args.TrainingArguments,
    accelerate.accelerator.Accelerator,
    trl.extras.profiling.ProfilingContext,
    trl.trainer.grpo_trainer.GRPOTrainer,
    trl.trainer.rloo_trainer.RLOOTrainer,
)


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.arange(8) + index
        return {"input_ids": ids, "labels": ids}


def make_trainer(directory, steps=2, callbacks=None, **arguments):
    tokenizer = make_tokenizer()
    return transformers.Trainer(
        model=make_model(tokenizer),
        args=transformers.TrainingArguments(
            output_dir=str(directory),
            max_steps=steps,
            per_device_train_batch_size=2,
            logging_steps=1,
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            **{"save_strategy": "no", **arguments},
        ),
        train_dataset=Sentences(),
        eval_dataset=torch.utils.data.Subset(Sentences(), range(4)),
        callbacks=callbacks,
    )


def names(recorded):
    return Counter(span.name for span in recorded.spans)


def test_a_supervised_step_has_data_wait_forward_backward_and_optimizer(instrumented, recorded, tmp_path):
    make_trainer(tmp_path).train()

    assert names(recorded) >= Counter(
        {"rl.loop": 2, "rl.rank.step": 2, "rl.data_wait": 2, "rl.train": 2, "rl.forward": 2, "rl.optimizer": 2}
    )
    assert names(recorded)["rl.backward"] == 2
    assert steps.where().step is None


def test_many_micro_batches_become_few_spans_and_all_durations(instrumented, recorded, tmp_path):
    make_trainer(tmp_path, steps=1, gradient_accumulation_steps=12).train()

    found = names(recorded)
    assert found["rl.forward"] == found["rl.backward"] == SPANS_PER_STEP
    assert sum(found.values()) <= 25
    counts = {p.attributes["rl.phase"]: p.count for p in recorded.metrics()["rl.phase.duration"]}
    assert counts["forward"] == counts["backward"] == 12


def test_logging_less_often_than_stepping_names_the_steps_covered(instrumented, recorded, tmp_path):
    trainer = make_trainer(tmp_path, steps=4)
    trainer.args.logging_steps = 2
    trainer.state.logging_steps = 2
    trainer.train()

    covered = [
        (event.attributes["rl.step.first"], event.attributes["rl.step.last"])
        for event in recorded.events("rl.step")
        if "loss" in event.body
    ]
    assert covered == [(1, 2), (3, 4)]


def test_evaluating_several_data_sets_is_one_phase(instrumented, recorded, tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.evaluate({"a": trainer.eval_dataset, "b": trainer.eval_dataset})

    assert names(recorded)["rl.evaluate"] == 1
    assert len(recorded.events("rl.step")) == 2


def test_a_failure_closes_everything_and_is_the_same_object(instrumented, recorded, tmp_path):
    error = KeyboardInterrupt("stop")

    class Failing(transformers.TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, **kwargs):
            if state.global_step == 1:
                raise error

    with pytest.raises(KeyboardInterrupt) as caught:
        make_trainer(tmp_path, steps=5, callbacks=[Failing()]).train()

    assert caught.value is error
    assert steps.where().step is None
    failed = {span.name for span in recorded.spans if span.attributes.get("error.type") == "KeyboardInterrupt"}
    assert failed == {"rl.loop", "rl.rank.step", "rl.train"}
    from opentelemetry import trace

    assert not trace.get_current_span().get_span_context().is_valid


def test_the_callbacks_of_the_program_are_what_it_gave(instrumented, tmp_path):
    class Own(transformers.TrainerCallback):
        pass

    trainer = make_trainer(tmp_path, callbacks=[Own])
    kinds = [type(callback).__name__ for callback in trainer.callback_handler.callbacks]

    assert kinds == ["DefaultFlowCallback", "Own", "PrinterCallback"]
    assert isinstance(trainer.pop_callback(Own), Own)
    assert pickle.loads(pickle.dumps(trainer.args)).max_steps == 2  # noqa: S301 - our own bytes


def test_a_value_that_a_callback_removes_from_the_logs_is_recorded(instrumented, recorded, tmp_path):
    make_trainer(tmp_path).train()

    assert "total_flos" in recorded.events("rl.step")[-1].body


def test_uninstrumenting_restores_the_very_objects(recorded):
    before = {owner: dict(vars(owner)) for owner in OWNERS}
    instrumentors = [TransformersInstrumentor(), TRLInstrumentor()]
    for instrumentor in instrumentors:
        instrumentor.instrument(skip_dep_check=True)
    for owner in OWNERS:
        assert any(vars(owner)[name] is not value for name, value in before[owner].items()), owner
    for instrumentor in instrumentors:
        instrumentor.uninstrument()

    for owner in OWNERS:
        assert set(vars(owner)) == set(before[owner])
        assert [name for name, value in before[owner].items() if vars(owner)[name] is not value] == []


def test_every_attribute_that_is_wrapped_exists_in_the_installed_versions(instrumented):
    missing = [name for instrumentor in instrumented for name in instrumentor.missing]

    assert missing == []


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (trl.GRPOTrainer, ("trl", "grpo")),
        (trl.GRPOConfig, ("trl", "grpo")),
        (trl.RLOOTrainer, ("trl", "rloo")),
        (trl.DPOConfig, ("trl", "dpo")),
        (trl.SFTTrainer, ("trl", "sft")),
        (trl.RewardTrainer, ("trl", "reward_modeling")),
        (transformers.Trainer, ("transformers", None)),
        (transformers.TrainingArguments, ("transformers", None)),
        (type("MyOwn", (trl.GRPOTrainer,), {}), ("trl", "grpo")),
        (type("OnlineDPOTrainer", (), {"__module__": "trl.experimental"}), ("trl", "online_dpo")),
    ],
)
def test_system_and_algorithm_follow_from_the_class(instrumented, kind, expected):
    system, _, algorithm = systems.identify(kind, "transformers")

    assert (system, algorithm) == expected
