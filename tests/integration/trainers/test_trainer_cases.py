"""What training programs do beside plain steps: data that ends early, resuming, stopping, several trainers, engines."""

from __future__ import annotations

import importlib
import threading
from collections import Counter

import every_trainer
import pytest
import runs
import torch
import transformers
import trl
import vllm_stand_in
from packaging.version import Version
from tiny_model import make_model, make_tokenizer
from trl.trainer import grpo_trainer
from virtual_work import PIECE, Clock, injected

from otel_rl.core import instrumentor_status
from otel_rl.instrumentors.trl import TRLInstrumentor
from otel_rl.instrumentors.trl.profiling import scope
from otel_rl.process import process_identity
from otel_rl.ranks.watchdog import thread as watchdog_thread
from otel_rl.ranks.watchdog.step_times import FIRST_STEPS
from otel_rl.ranks.watchdog.thread import Watchdog
from otel_rl.telemetry import progress
from otel_rl.training import steps, systems
from otel_rl.training.trainer_loop import TrainerLoop


class Sentences(torch.utils.data.IterableDataset):
    """Eight samples per epoch, without a length."""

    def __iter__(self):
        for index in range(8):
            ids = torch.arange(8) + index
            yield {"input_ids": ids, "labels": ids}


def make_trainer(directory, max_steps, data=None, callbacks=None, **arguments):
    return transformers.Trainer(
        model=make_model(make_tokenizer()),
        args=transformers.TrainingArguments(
            output_dir=str(directory),
            max_steps=max_steps,
            per_device_train_batch_size=2,
            logging_steps=1,
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            **{"save_strategy": "no", **arguments},
        ),
        train_dataset=data or Sentences(),
        callbacks=callbacks,
    )


def iterations(recorded, name="rl.loop"):
    found = [span for span in recorded.spans if span.name == name]
    return [span.attributes["rl.loop.iteration"] for span in sorted(found, key=lambda span: span.start_time)]


def test_data_that_ends_early_begins_no_steps_and_waits(instrumented, recorded, tmp_path):
    make_trainer(tmp_path, max_steps=40).train()

    assert iterations(recorded) == list(range(1, 41))
    counts = Counter(span.name for span in recorded.spans)
    assert counts["rl.data_wait"] == counts["rl.rank.step"] == 40
    assert sum(counts.values()) <= 40 * 7


def test_an_epoch_that_ends_inside_an_accumulation_continues_the_same_step(instrumented, recorded, tmp_path):
    # Four batches per epoch, three per step: the fourth is trained on, and the step ends in the next epoch.
    make_trainer(tmp_path, max_steps=3, gradient_accumulation_steps=3).train()

    assert iterations(recorded) == [1, 2, 3]
    assert iterations(recorded, "rl.data_wait")[:3] == [1, 2, 2]
    [inside] = [
        span
        for span in recorded.spans
        if span.name == "rl.data_wait"
        and span.attributes["rl.loop.iteration"] == 2
        and any(
            other.context.span_id == span.parent.span_id and other.name == "rl.rank.step" for other in recorded.spans
        )
    ]
    assert inside.attributes["rl.phase"] == "data_wait"


@pytest.mark.skipif(
    Version(torch.__version__) < Version("2.6"),
    reason="transformers loads no checkpoint with torch before 2.6",
)
def test_a_resumed_run_goes_on_with_the_next_number(instrumented, recorded, tmp_path):
    make_trainer(tmp_path, max_steps=2, save_strategy="steps", save_steps=2).train()
    recorded.clear()
    make_trainer(tmp_path, max_steps=4).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))

    assert iterations(recorded) == [3, 4]
    logged = [event for event in recorded.events("rl.step") if "loss" in event.body]
    assert [(event.attributes["rl.step.first"], event.attributes["rl.step.last"]) for event in logged] == [
        (3, 3),
        (4, 4),
    ]
    assert recorded.metrics()["rl.train.steps"][0].value == 2


def test_an_early_stop_inside_a_step_closes_it_without_an_error(instrumented, recorded, tmp_path):
    class Stopping(transformers.TrainerCallback):
        def on_substep_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == 1

    make_trainer(tmp_path, max_steps=5, callbacks=[Stopping()], gradient_accumulation_steps=2).train()

    assert iterations(recorded) == [1, 2]
    assert not [span for span in recorded.spans if "error.type" in span.attributes]
    assert steps.where().step is None


def test_an_exception_inside_a_part_marks_what_was_open(instrumented, recorded, tmp_path):
    error = ArithmeticError("secret")
    trainer = make_trainer(tmp_path, max_steps=5)

    def fail(*_):
        if trainer.state.global_step == 1:
            raise error

    trainer.model.register_forward_pre_hook(fail)
    with pytest.raises(ArithmeticError) as caught:
        trainer.train()

    assert caught.value is error
    failed = {span.name for span in recorded.spans if span.attributes.get("error.type") == "ArithmeticError"}
    assert failed == {"rl.loop", "rl.rank.step", "rl.train", "rl.forward"}
    assert steps.where().step is None
    assert not any("secret" in span.to_json() for span in recorded.spans)


# -- several trainers --------------------------------------------------------------------------------------------------


def test_trainers_one_after_the_other_have_step_traces_of_their_own(instrumented, recorded, tmp_path):
    for _ in range(2):
        make_trainer(tmp_path, max_steps=2).train()

    assert iterations(recorded) == [1, 2, 1, 2]
    assert len({span.context.trace_id for span in recorded.spans if span.name == "rl.loop"}) == 4


def test_a_trainer_inside_a_callback_of_another_leaves_the_outer_step_open(instrumented, recorded, tmp_path):
    inner = make_trainer(tmp_path / "inner", max_steps=2)

    class Distilling(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 1:
                inner.train()

    make_trainer(tmp_path, max_steps=2, callbacks=[Distilling()]).train()

    roots = [span for span in recorded.spans if span.name == "rl.loop"]
    assert sorted(span.attributes["rl.loop.iteration"] for span in roots) == [1, 1, 2, 2]
    outer, *insides = sorted(roots, key=lambda span: span.start_time)[:3]
    for span in insides:
        assert span.end_time <= outer.end_time
    per_trace = Counter(span.context.trace_id for span in recorded.spans if span.name == "rl.optimizer")
    assert set(per_trace.values()) == {1}


def test_trainers_in_several_threads_at_once_keep_their_phases_apart(instrumented, recorded, tmp_path):
    meet = threading.Barrier(2, timeout=60)

    class Meeting(transformers.TrainerCallback):
        def on_step_begin(self, *_, **__):
            meet.wait()

    trainers = [make_trainer(tmp_path / str(n), max_steps=3, callbacks=[Meeting()]) for n in range(2)]
    threads = [threading.Thread(target=trainer.train) for trainer in trainers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    roots = [span for span in recorded.spans if span.name == "rl.loop"]
    assert sorted(span.attributes["rl.loop.iteration"] for span in roots) == [1, 1, 2, 2, 3, 3]
    for root in roots:
        members = Counter(span.name for span in recorded.spans if span.context.trace_id == root.context.trace_id)
        assert members == Counter(
            ["rl.loop", "rl.rank.step", "rl.data_wait", "rl.train", "rl.forward", "rl.backward", "rl.optimizer"]
        )


def test_a_driver_and_an_asynchronous_trainer_have_a_step_open_at_once(recorded):
    import otel_rl
    from otel_rl.semconv import spans

    ready, go_on = threading.Event(), threading.Event()

    def train():
        loop = TrainerLoop().enter()
        loop.begin_step(1, scope)
        ready.set()
        go_on.wait(60)
        with loop.phase(spans.RL_FORWARD, scope):
            pass
        loop.leave()

    trainer = threading.Thread(target=train)
    trainer.start()
    assert ready.wait(60)
    with otel_rl.step(7), otel_rl.phase("sample"):
        go_on.set()
        trainer.join(60)

    [driver] = [span for span in recorded.spans if span.name == "rl.loop" and span.attributes["rl.loop.iteration"] == 7]
    assert recorded.span("rl.sample").context.trace_id == driver.context.trace_id
    assert recorded.span("rl.forward").context.trace_id != driver.context.trace_id
    assert len(iterations(recorded)) == 2


# -- engines -----------------------------------------------------------------------------------------------------------


#: Mode, and whether the engine gives its memory back between steps.
MODES = {"server": ("server", False), "colocate": ("colocate", False), "colocate, sleeping": ("colocate", True)}
WITH_ENGINE = {
    "GRPO": "trl.trainer.grpo_trainer",
    "RLOO": "trl.trainer.rloo_trainer",
    "Distillation": "trl.trainer.distillation_trainer",
    "OnlineDPO": "trl.experimental.online_dpo.online_dpo_trainer",
}


@runs.LATEST
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WITH_ENGINE)
def test_weight_transfer_is_no_sampling(instrumented, recorded, tmp_path, monkeypatch, name, mode):
    kind = getattr(importlib.import_module(WITH_ENGINE[name]), f"{name}Trainer")
    clock = Clock()
    monkeypatch.setattr(every_trainer, "work", clock.work)
    vllm_stand_in.install(monkeypatch, clock.work)
    where, sleeping = MODES[mode]
    server = vllm_stand_in.Server(clock.work)
    trainer = every_trainer.make(
        kind,
        tmp_path,
        steps=2,
        use_vllm=True,
        vllm_mode=where,
        vllm_server_base_url=server.url,
        vllm_enable_sleep_mode=sleeping,
    )
    with injected(trainer, clock, monkeypatch):
        trainer.train()
    server.shutdown()

    assert ("/update_weights" in server.posted) == ("/v1/completions" in server.posted) == (where == "server")
    names = {span.context.span_id: span.name for span in recorded.spans}
    for span in recorded.spans:
        if span.name in ("rl.sync", "rl.sample"):
            assert names[span.parent.span_id] == "rl.rank.step"
        if span.name == "rl.generate":
            assert names[span.parent.span_id] == "rl.sample"
        if span.name == "rl.weight_sync":
            assert names[span.parent.span_id] == "rl.sync"
    assert {"rl.sample", "rl.sync", "rl.weight_sync"} <= set(names.values())
    metrics = recorded.metrics()
    for phase in ("sync", "sample", "reward"):
        worked = sum(piece.kind == phase for piece in clock.pieces) * PIECE * 1e-9
        assert (worked > 0) == (phase != "reward" or name != "Distillation")
        assert sum(point.sum for point in metrics.get(f"rl.{phase}.duration", ())) == pytest.approx(worked), phase
    if name in ("GRPO", "RLOO"):
        # How far the engine's probabilities and the trainer's are apart.
        assert "rl.sample.logprob_difference.mean" in metrics


@runs.LATEST
@pytest.mark.parametrize(("standing", "hangs"), [("sample", False), ("reward", True)])
def test_a_long_generation_by_vllm_is_no_hang_and_a_long_reward_is_one(
    instrumented, recorded, tmp_path, monkeypatch, standing, hangs
):
    """TRL gathers the prompts of the ranks inside the phase, which is a collective where there are several."""
    from trl.generation import vllm_generation

    now, gathered, watchdog = [0.0], [0], Watchdog(60.0)
    monkeypatch.setattr(watchdog_thread, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "_sources", [gathered.copy])
    gather = vllm_generation.gather_object

    def gather_object(prompts):
        look()
        gathered[0] += 1
        look()
        return gather(prompts)

    def look(seconds=1):
        for _ in range(seconds):
            now[0] += 1
            watchdog.look()

    def work(kind):
        look(500 if kind == standing and watchdog.times.seen > 2 * FIRST_STEPS else 1)

    monkeypatch.setattr(every_trainer, "work", work)
    vllm_stand_in.install(monkeypatch, work)
    monkeypatch.setattr(vllm_generation, "gather_object", gather_object)
    server = vllm_stand_in.Server(work)
    trainer = every_trainer.make(
        trl.GRPOTrainer,
        tmp_path,
        steps=FIRST_STEPS + 2,
        use_vllm=True,
        vllm_mode="server",
        vllm_server_base_url=server.url,
    )
    steps.openers.add(watchdog.times.began)
    steps.contributors.add(watchdog.times.ended)
    try:
        trainer.train()
    finally:
        steps.openers.remove(watchdog.times.began)
        steps.contributors.remove(watchdog.times.ended)
        server.shutdown()

    assert gathered[0] > FIRST_STEPS
    assert bool(recorded.events("rl.hang")) is hangs


@pytest.mark.parametrize(
    ("module", "name"),
    [("async_grpo", "AsyncGRPOTrainer"), ("async_distillation", "AsyncDistillationTrainer")],
)
def test_the_sync_of_an_asynchronous_trainer_is_a_phase(instrumented, recorded, module, name):
    trainers = pytest.importorskip(f"trl.experimental.{module}.{module}_trainer")
    kind = getattr(trainers, name)
    trainer = object.__new__(kind)
    loop = TrainerLoop().enter()
    loop.begin_step(1, scope)
    with pytest.raises(AttributeError):
        trainer._sync_weight()
    loop.leave()

    assert recorded.span("rl.sync").attributes["error.type"] == "AttributeError"


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["_generate", "_calculate_rewards"])
def test_a_private_name_that_has_moved_makes_the_state_degraded(recorded, monkeypatch, name):
    monkeypatch.delattr(grpo_trainer.GRPOTrainer, name)
    instrumentor = TRLInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    try:
        status = instrumentor_status.snapshot()["otel_rl_trl"]
    finally:
        instrumentor.uninstrument()

    assert status["state"] == "degraded"
    assert name in str(status)


def test_a_method_of_an_experimental_trainer_that_has_moved_makes_the_state_degraded(recorded, monkeypatch):
    online_dpo = pytest.importorskip("trl.experimental.online_dpo.online_dpo_trainer")
    monkeypatch.delattr(online_dpo.OnlineDPOTrainer, "_forward")
    instrumentor = TRLInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    try:
        status = instrumentor_status.snapshot()["otel_rl_trl"]
    finally:
        instrumentor.uninstrument()

    assert status["state"] == "degraded"
    assert "OnlineDPOTrainer._forward" in str(status)


# -- identity ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def unknown(monkeypatch):
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity())
    monkeypatch.setattr(systems, "_named", 0)


def test_the_first_specific_system_wins(instrumented, unknown, tmp_path):
    common = {"output_dir": str(tmp_path), "use_cpu": True, "report_to": "none"}
    seen = []
    for configuration in (
        transformers.TrainingArguments,
        trl.GRPOConfig,
        trl.DPOConfig,
        transformers.TrainingArguments,
    ):
        configuration(**common)
        known = process_identity.current()
        seen.append((known.system, known.system_version, known.algorithm, known.role))

    trl_first = ("trl", trl.__version__, "grpo", "trainer")
    assert seen == [("transformers", transformers.__version__, None, "trainer"), trl_first, trl_first, trl_first]


def test_the_steps_name_model_loss_and_batch_sizes(instrumented, recorded, tmp_path):
    every_trainer.make(trl.GRPOTrainer, tmp_path, steps=1, gradient_accumulation_steps=2).train()

    found = recorded.span("rl.loop").attributes
    assert found["rl.model.name"] == "model"
    assert found["rl.loss.type"] == "dapo"
    assert found["rl.train.batch_size"] == 8
    assert found["rl.sample.batch_size"] == 8
