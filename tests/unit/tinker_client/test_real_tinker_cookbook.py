"""The cookbook's own rollouts, timers, logger and training data on the real client: steps, values and rows."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("tinker_cookbook")

import tinker

from otel_rl.instrumentors.tinker_cookbook import TinkerCookbookInstrumentor
from otel_rl.telemetry import deferral
from otel_rl.training import trajectories, trajectory_shares

PROMPT = tinker.ModelInput.from_ints([1, 2, 3])


@pytest.fixture(autouse=True)
def cookbook(instrumented):
    """Imported first: where stand-ins of these modules were instrumented before, an import is not noticed again."""
    import tinker_cookbook.rl.data_processing
    import tinker_cookbook.rl.rollouts
    import tinker_cookbook.supervised.train
    import tinker_cookbook.utils.ml_log

    trajectory_shares.forget()
    instrumentor = TinkerCookbookInstrumentor()
    instrumentor.instrument()
    assert not instrumentor.missing
    yield tinker_cookbook
    instrumentor.uninstrument()
    trajectory_shares.forget()


def _builder(cookbook, rewards):
    """A group of episodes of one turn with these rewards."""
    types = cookbook.rl.types

    class Episode(types.Env):
        def __init__(self, reward):
            self.reward = reward

        async def initial_observation(self):
            return PROMPT, ["stop"]

        async def step(self, action, *, extra=None):
            return types.StepResult(self.reward, True, PROMPT, ["stop"], metrics={"correct": self.reward})

    class Group(types.EnvGroupBuilder):
        async def make_envs(self):
            return [Episode(reward) for reward in rewards]

    return Group()


async def _iteration(cookbook, trained, number, logger):
    made = trained.save_weights_and_get_sampling_client()
    sampler = made.result() if hasattr(made, "result") else made
    policy = cookbook.completers.TinkerTokenCompleter(sampler, max_tokens=2)
    with cookbook.utils.trace.trace_iteration(step=number):
        async with cookbook.utils.trace.scope_span("sampling"):
            group = await cookbook.rl.rollouts.do_group_rollout(_builder(cookbook, [1.0, 0.0]), policy)
        advantages = cookbook.rl.data_processing.compute_advantages([group])
        cookbook.rl.data_processing.assemble_training_data([group], advantages)
        async with cookbook.utils.trace.scope_span("train"):
            update = trained.optim_step(tinker.AdamParams(learning_rate=0.1))
            await update
    logger.log_metrics({"env/all/reward/total": 0.5}, step=number)


def _run(cookbook, trained, steps):
    logger = cookbook.utils.ml_log.MultiplexLogger([])
    for number in range(steps):
        asyncio.run(_iteration(cookbook, trained, number, logger))
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), trained.holder.get_loop()).result()
    trajectories.record()
    deferral.drain_all()


def test_steps_phases_and_values_have_the_numbers_of_the_cookbook(recorded, cookbook, trained):
    _run(cookbook, trained, 2)
    steps = [span.attributes["rl.loop.iteration"] for span in recorded.spans if span.name == "rl.loop"]
    assert steps == [0, 1]
    values = [(event.attributes["rl.loop.iteration"], dict(event.body)) for event in recorded.events("rl.step")]
    assert values == [(0, {"env/all/reward/total": 0.5}), (1, {"env/all/reward/total": 0.5})]
    scope = "otel_rl.tinker_cookbook"
    phases = [span.name for span in recorded.spans if span.instrumentation_scope.name == scope]
    assert [name for name in phases if name in ("rl.sample", "rl.train")] == ["rl.sample", "rl.train"] * 2


def test_a_sample_is_a_row_with_reward_advantage_lengths_and_version(recorded, cookbook, trained):
    _run(cookbook, trained, 1)
    (event,) = recorded.events("rl.trajectories")
    rows = dict(event.body)
    order = sorted(range(2), key=lambda place: -rows["rl.rollout.reward"][place])
    column = {name: [rows[f"rl.rollout.{name}"][place] for place in order] for name in ("reward", "advantage")}
    assert column == {"reward": [1.0, 0.0], "advantage": [0.5, -0.5]}
    assert rows["rl.rollout.input_tokens"] == [3, 3]
    assert rows["rl.rollout.output_tokens"] == [2, 2]
    assert len(set(rows["rl.group.id"])) == 1
    rollouts = [span for span in recorded.spans if span.name == "rl.rollout"]
    calls = [span for span in recorded.spans if span.name.startswith("text_completion")]
    assert {call.parent.span_id for call in calls} == {span.context.span_id for span in rollouts}
