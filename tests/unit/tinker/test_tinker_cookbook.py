"""The loops of Tinker's cookbook: steps with its numbers, phases by its timers, values, rollouts with rewards."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
import tinker_stand_in as stand_in

from otel_rl.telemetry import deferral
from otel_rl.training import trajectories
from otel_rl.training.scalars import Source, sink

MODULES = stand_in.sys_modules()


class Tracker:
    """A child logger whose own instrumentor records what it gets, as that of Weights & Biases does."""

    def __init__(self):
        self.logged = []

    def log_metrics(self, metrics, step=None):
        from otel_rl.telemetry import Scope

        self.logged.append((step, dict(metrics)))
        sink.log(Scope("wandb"), Source.WANDB, step, metrics)


def _env(reward=1.0, stop_reason=None, error=None):
    return SimpleNamespace(reward=reward, stop_reason=stop_reason, error=error)


def _config(trained, **given):
    builder = SimpleNamespace(envs=[_env(1.0), _env(0.0)], final_rewards=[0.0, 0.0])
    values = {"client": trained, "steps": 2, "first": 0, "loggers": [Tracker()], "builder": builder, "manager": None}
    return SimpleNamespace(**(values | {"shift": 0.0} | given))


def _run(module, config):
    asyncio.run(MODULES[module].main(config))
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), config.client.holder.loop).result()
    deferral.drain_all()


def _train(trained, **given):
    config = _config(trained, **given)
    _run("tinker_cookbook.rl.train", config)
    return config


def _rows(recorded):
    trajectories.record()
    deferral.drain_all()
    return [event.body for event in recorded.events("rl.trajectories")]


def _named(recorded, name):
    return [span for span in recorded.spans if span.name == name]


def test_steps_have_the_numbers_of_the_cookbook_from_0_on(recorded, trained):
    _train(trained)
    assert [span.attributes["rl.loop.iteration"] for span in _named(recorded, "rl.loop")] == [0, 1]
    assert {span.attributes["rl.loop.source"] for span in _named(recorded, "rl.loop")} == {"known"}


def test_timers_are_phases_and_operations_of_the_client_their_parts(recorded, trained):
    _train(trained, steps=1)
    phases = [span for span in recorded.spans if span.instrumentation_scope.name == "otel_rl.tinker_cookbook"]
    of_step = [span.name for span in phases if span.attributes.get("rl.phase") not in (None, "reward")]
    assert of_step == ["rl.sample", "rl.train", "rl.sync"]
    train = recorded.span("rl.train")
    for part in ("rl.backward", "rl.optimizer"):
        assert recorded.span(part).parent.span_id == train.context.span_id
    assert dict(stand_in.handled)["optim_step"] == "rl.train"


def test_a_checkpoint_of_the_loop_interrupts_the_sync(recorded, trained):
    _train(trained, steps=1, manager="a manager")
    own = [span for span in recorded.spans if span.instrumentation_scope.name == "otel_rl.tinker_cookbook"]
    assert [span.name for span in own if span.name in ("rl.sync", "rl.checkpoint")][:3] == [
        "rl.sync",
        "rl.checkpoint",
        "rl.sync",
    ]


def test_a_log_call_is_one_event_with_the_step_and_the_trackers_below_are_part_of_it(recorded, trained):
    tracker = _train(trained).loggers[0]
    logged = [(event.attributes["rl.loop.iteration"], dict(event.body)) for event in recorded.events("rl.step")]
    assert logged == tracker.logged
    assert [step for step, _ in logged] == [0, 1]


def test_a_rollout_is_a_trace_of_its_own_with_its_call_and_is_linked_to_its_step(recorded, trained):
    _train(trained, steps=1)
    rollouts, step = _named(recorded, "rl.rollout"), recorded.span("rl.rank.step")
    assert len(rollouts) == 2
    assert {link.context.span_id for span in rollouts for link in span.links} == {step.context.span_id}
    calls = [span for span in recorded.spans if span.name.startswith("text_completion")]
    assert {call.parent.span_id for call in calls} == {span.context.span_id for span in rollouts}


def test_rows_have_group_rewards_lengths_stop_reason_and_advantage(recorded, trained):
    builder = SimpleNamespace(envs=[_env(1.0, "max_turns"), _env(0.0)], final_rewards=[0.5, 0.0])
    _train(trained, steps=1, builder=builder)
    (body,) = _rows(recorded)
    order = sorted(range(2), key=lambda place: -body["rl.rollout.reward"][place])
    names = ("reward", "advantage", "trained", "stop_reason", "input_tokens", "output_tokens")
    column = {name: [body[f"rl.rollout.{name}"][place] for place in order] for name in names}
    assert column["reward"] == [1.5, 0.0]
    assert column["advantage"] == [0.75, -0.75]
    assert column["trained"] == [True, True]
    assert column["stop_reason"] == ["max_turns", "length"]
    assert column["input_tokens"] == [3, 3]
    assert column["output_tokens"] == [2, 2]
    assert len(set(body["rl.group.id"])) == 1
    assert sorted(body["rl.reward.names"]) == ["environment", "group"]
    (event,) = recorded.events("rl.trajectories")
    assert event.attributes["rl.advantage.estimator"] == "dr_grpo"


def test_advantages_of_another_formula_name_no_estimator(recorded, trained):
    _train(trained, steps=1, shift=0.25)
    _rows(recorded)
    (event,) = recorded.events("rl.trajectories")
    assert "rl.advantage.estimator" not in event.attributes


def test_a_rollout_that_fails_fails_for_the_program_and_in_its_row(recorded, trained):
    error = RuntimeError("of the environment")
    builder = SimpleNamespace(envs=[_env(error=error)], final_rewards=[0.0])
    with pytest.raises(RuntimeError) as raised:
        _train(trained, steps=1, builder=builder)
    assert raised.value is error
    deferral.drain_all()
    assert recorded.span("rl.rollout").attributes["rl.rollout.status"] == "failed"
    assert recorded.span("rl.rank.step").attributes["error.type"] == "RuntimeError"


def test_an_evaluation_beside_the_loop_is_no_step(recorded, trained):
    async def evaluation():
        with MODULES["tinker_cookbook.utils.trace"].trace_iteration(step=9):
            pass

    async def main():
        await asyncio.create_task(evaluation(), name="evaluation_loop")

    asyncio.run(main())
    deferral.drain_all()
    assert _named(recorded, "rl.loop") == []


def test_timers_of_tasks_beside_the_loop_are_no_phases(recorded, trained):
    utils = MODULES["tinker_cookbook.utils.trace"]

    async def beside():
        async with utils.scope_span("sampling"):
            pass

    async def main():
        with utils.trace_iteration(step=3):
            await asyncio.create_task(beside())

    asyncio.run(main())
    deferral.drain_all()
    assert [span.attributes["rl.loop.iteration"] for span in _named(recorded, "rl.loop")] == [3]
    assert _named(recorded, "rl.sample") == []


@pytest.mark.parametrize("first", [0, 5])
def test_a_step_of_supervised_learning_ends_when_its_values_are_logged(recorded, trained, first):
    config = _config(trained, steps=3, first=first)
    _run("tinker_cookbook.supervised.train", config)
    steps = _named(recorded, "rl.rank.step")
    assert [span.attributes["rl.loop.iteration"] for span in steps] == [first, first + 1, first + 2]
    assert [event.attributes["rl.loop.iteration"] for event in recorded.events("rl.step")] == [
        first,
        first + 1,
        first + 2,
    ]
    assert [span.attributes["rl.loop.iteration"] for span in _named(recorded, "rl.train")] == [
        first,
        first + 1,
        first + 2,
    ]
    assert len(_named(recorded, "rl.optimizer")) == 3


def test_blocks_stay_what_they_were(trained):
    utils = MODULES["tinker_cookbook.utils.trace"]
    with utils.trace_iteration(step=4) as window:
        assert window.step == 4
    with pytest.raises(KeyError), utils.scope_span_sync("train"):
        raise KeyError("of the program")
