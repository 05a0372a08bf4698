"""Pauses of real steps: collections that are forced, compilations that happen again."""

from __future__ import annotations

import gc

import pytest

from otel_rl.runtime_metrics import garbage, step_pauses
from otel_rl.semconv import attributes, events, spans
from otel_rl.telemetry import Scope
from otel_rl.training import steps

torch = pytest.importorskip("torch")
_scope = Scope("test")


@pytest.fixture
def following(recorded, monkeypatch):
    """The steps are followed, as the distro does it."""
    # Whatever the version of Python: no other thread changes what this one copies.
    monkeypatch.setattr(garbage.pauses, "are_timed", True)
    # As in test_compilations.
    monkeypatch.setattr(torch.nn.parallel.DistributedDataParallel, "_active_ddp_module", None)
    torch._dynamo.reset()
    step_pauses.start()
    step_pauses.record_recompilations()
    recorded.clear()
    yield recorded
    steps.finish()
    steps.openers.remove(step_pauses._opened)
    steps.contributors.remove(step_pauses._closing)
    garbage.pauses.leave()
    torch._dynamo.reset()


def rank_steps(recorded):
    return [span for span in recorded.spans if span.name == spans.RL_RANK_STEP.type]


def test_a_step_has_the_seconds_of_its_own_collections(following, monkeypatch):
    readings = iter(range(10**6))
    monkeypatch.setattr(garbage, "clock", lambda: float(next(readings)))
    gc.disable()
    try:
        gc.collect()
        for number, collections in ((1, 3), (2, 0)):
            steps.begin(number, _scope)
            for _ in range(collections):
                gc.collect()
            steps.finish()
    finally:
        gc.enable()

    first, second = rank_steps(following)
    assert first.attributes[attributes.RL_LOOP_GC_TIME] == 3.0
    assert second.attributes[attributes.RL_LOOP_GC_TIME] == 0.0


def test_a_recompilation_is_an_event_with_its_step_and_the_step_has_the_time(following):
    @torch.compile(backend="eager", dynamic=False)
    def doubled(x):
        return x * 2

    for number, size in enumerate((3, 3, 4), start=1):
        steps.begin(number, _scope)
        doubled(torch.ones(size))
        steps.finish()

    [event] = following.events(events.RL_COMPILE_RECOMPILATION.name)
    assert event.attributes[attributes.RL_LOOP_ITERATION] == 3
    assert event.attributes[attributes.RL_COMPILE_FUNCTION].startswith("doubled (test_step_pauses.py:")
    assert "size mismatch" in event.attributes[attributes.RL_COMPILE_REASON]
    assert set(event.attributes) >= set(events.RL_COMPILE_RECOMPILATION.attributes)
    compiled = [attributes.RL_LOOP_COMPILE_TIME in step.attributes for step in rank_steps(following)]
    assert compiled == [True, False, True]


def test_what_is_compiled_between_two_steps_belongs_to_neither(following):
    @torch.compile(backend="eager", dynamic=False)
    def added(x):
        return x + 1

    steps.begin(1, _scope)
    steps.finish()
    added(torch.ones(2))
    added(torch.ones(3))
    steps.begin(2, _scope)
    steps.finish()

    assert not any(attributes.RL_LOOP_COMPILE_TIME in step.attributes for step in rank_steps(following))
    [event] = following.events(events.RL_COMPILE_RECOMPILATION.name)
    assert attributes.RL_LOOP_ITERATION not in event.attributes
