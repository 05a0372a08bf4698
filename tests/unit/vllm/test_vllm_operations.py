"""Operations on an engine as parts of `rl.sync`; the engines are stand-ins, vLLM is not needed."""

from __future__ import annotations

import asyncio
import contextvars
from types import SimpleNamespace

import pytest

import otel_rl
from otel_rl.instrumentors.patching import Patches
from otel_rl.instrumentors.vllm import operations
from otel_rl.semconv import attributes, metrics


class LLM:
    def __init__(self):
        self.fails = False

    def sleep(self, level=1):
        return level

    def update_weights(self, request):
        if self.fails:
            raise RuntimeError("no")
        return self.collective_rpc("update_weights", None, (), {"update_info": request})

    def start_weight_update(self):
        return None

    def finish_weight_update(self, weight_version=None):
        return weight_version

    def collective_rpc(self, method, timeout=None, args=(), kwargs=None):
        return [method]

    async def wake_up(self, tags=None):
        await asyncio.sleep(0)
        return tags


@pytest.fixture
def engine(recorded):
    patches = Patches()
    for name in ("sleep", "update_weights", "start_weight_update", "finish_weight_update", "wake_up"):
        patches.observe(LLM, name, begin=operations.beginning(name), end=operations.end)
    patches.observe(LLM, "collective_rpc", begin=operations.begin_rpc, end=operations.end)
    yield LLM()
    patches.restore()


def syncs(recorded):
    return [span for span in recorded.spans if span.name == "rl.sync"]


def test_an_operation_that_brings_weights_suspends_the_phase_around_it(engine, recorded):
    with otel_rl.step(1):
        with otel_rl.phase("train"):
            assert engine.update_weights({"shapes": [[4]], "dtype_names": ["float32"]}) == ["update_weights"]
    [sync] = syncs(recorded)
    assert sync.attributes[attributes.RL_SYNC_SIZE] == 16
    trains = [span for span in recorded.spans if span.name == "rl.train"]
    assert [span.attributes.get(attributes.RL_SUSPENDED) for span in trains] == [True, None]
    points = recorded.metrics()
    [duration] = points[metrics.RL_SYNC_DURATION.name]
    assert duration.count == 1
    [transferred] = points[metrics.RL_SYNC_TRANSFERRED.name]
    assert transferred.value == 16


def test_inside_of_the_programs_own_sync_operations_are_parts_and_the_phase_counts_once(engine, recorded):
    with otel_rl.step(1):
        with otel_rl.phase("sync"):
            engine.start_weight_update()
            engine.finish_weight_update("v1")
    *parts, phase = syncs(recorded)
    assert [part.attributes[attributes.RL_SYNC_OPERATION] for part in parts] == [
        "start_weight_update",
        "finish_weight_update",
    ]
    assert {part.parent.span_id for part in parts} == {phase.context.span_id}
    assert parts[1].attributes[attributes.RL_POLICY_VERSION] == "v1"
    [duration] = recorded.metrics()[metrics.RL_SYNC_DURATION.name]
    assert duration.count == 1


def test_sleep_while_samples_are_made_is_a_part_of_making_them(engine, recorded):
    with otel_rl.step(1):
        with otel_rl.phase("sample"):
            assert engine.sleep(2) == 2
    [sleep] = syncs(recorded)
    sample = recorded.span("rl.sample")
    assert sleep.parent.span_id == sample.context.span_id
    points = recorded.metrics()
    assert metrics.RL_SYNC_DURATION.name not in points
    assert points[metrics.RL_SYNC_OPERATION_DURATION.name][0].count == 1


async def test_an_operation_of_an_asynchronous_engine_lasts_until_it_is_awaited(engine, recorded):
    waking = engine.wake_up(tags=["weights"])
    assert syncs(recorded) == []
    assert await waking == ["weights"]
    [wake] = syncs(recorded)
    assert wake.attributes[attributes.RL_SYNC_OPERATION] == "wake_up"


def test_an_operation_that_is_closed_in_another_context_ends_there_and_the_next_one_is_seen(engine, recorded):
    here, elsewhere = contextvars.copy_context(), contextvars.copy_context()
    waking = engine.wake_up()
    here.run(waking.send, None)
    elsewhere.run(waking.close)
    [wake] = syncs(recorded)
    assert wake.attributes[attributes.ERROR_TYPE] == "GeneratorExit"
    here.run(engine.sleep)
    assert [span.attributes[attributes.RL_SYNC_OPERATION] for span in syncs(recorded)] == ["wake_up", "sleep"]


def test_a_failed_update_is_an_error_and_changes_no_version(engine, recorded):
    engine.fails = True
    with pytest.raises(RuntimeError, match="no"):
        engine.update_weights({})
    [sync] = syncs(recorded)
    assert sync.attributes[attributes.ERROR_TYPE] == "RuntimeError"
    assert operations.weights.of_engine(engine).version() == "0"


def test_two_engines_have_versions_of_their_own(engine, recorded):
    other = LLM()
    engine.update_weights({})
    assert operations.weights.of_engine(SimpleNamespace(llm_engine=engine)).version() == "1"
    assert operations.weights.of_engine(other).version() == "0"
