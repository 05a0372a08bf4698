"""Where the modules of the watchdog cannot be loaded, what they would watch is recorded all the same."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest
from opentelemetry import trace

import otel_rl
from otel_rl import event_loops
from otel_rl.core import guard, instrumentor_status
from otel_rl.ranks import watchdog
from otel_rl.telemetry import progress
from otel_rl.training import steps

EVENT_LOOPS, THREAD = "otel_rl.event_loops.thread", "otel_rl.ranks.watchdog.thread"


@pytest.fixture(autouse=True)
def armed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it has begun yet in this process."""
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "")
    monkeypatch.setattr(guard, "_errors", {})
    monkeypatch.setattr(instrumentor_status, "_outcomes", {})
    monkeypatch.setattr(watchdog, "_watchdog", None)
    monkeypatch.setattr(event_loops, "_event_loops", None)
    monkeypatch.setattr(steps.openers, "callbacks", [watchdog._step_began])
    monkeypatch.setattr(progress, "_loop_watcher", event_loops._first_event_loop)


async def _work() -> None:
    for _ in range(2):
        with otel_rl.rollout("r"), otel_rl.llm("m"), otel_rl.tool("t"):
            await asyncio.sleep(0)


def test_calls_tools_and_rollouts_in_an_event_loop_are_recorded(recorded, monkeypatch):
    monkeypatch.setitem(sys.modules, EVENT_LOOPS, None)
    asyncio.run(_work())
    names = sorted(span.name for span in recorded.spans)
    assert names == ["chat m"] * 2 + ["execute_tool t"] * 2 + ["rl.rollout"] * 2
    assert guard.error_counts() == {}
    assert instrumentor_status.snapshot()["event_loops"]["state"] == instrumentor_status.SKIPPED
    assert "event loops are not watched" in instrumentor_status.snapshot()["event_loops"]["reason"]


def test_nobody_tries_to_load_it_again(recorded, monkeypatch):
    monkeypatch.setitem(sys.modules, EVENT_LOOPS, None)
    monkeypatch.setitem(sys.modules, THREAD, None)
    asyncio.run(_work())
    with otel_rl.step(1):
        pass
    assert progress._loop_watcher is None
    assert watchdog._step_began not in steps.openers.callbacks


def test_steps_are_recorded_without_an_internal_error(recorded, monkeypatch):
    monkeypatch.setitem(sys.modules, THREAD, None)
    for number in (1, 2):
        with otel_rl.step(number):
            pass
    assert [span.name for span in recorded.spans].count("rl.loop") == 2
    assert guard.error_counts() == {}
    assert instrumentor_status.snapshot()["watchdog"]["state"] == instrumentor_status.SKIPPED


def test_a_timeout_of_the_program_while_it_is_loaded_reaches_the_program_and_it_is_loaded_with_the_next_call(
    recorded, monkeypatch
):
    class TimeoutOfProgramError(Exception):
        pass

    class SlowFileSystem:
        def find_spec(self, name: str, *_: object) -> None:
            if name == EVENT_LOOPS:
                os.kill(os.getpid(), signal.SIGALRM)

    def handler(*_: object) -> None:
        raise TimeoutOfProgramError

    monkeypatch.delitem(sys.modules, EVENT_LOOPS, raising=False)
    monkeypatch.setattr(sys, "meta_path", [SlowFileSystem(), *sys.meta_path])
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(TimeoutOfProgramError):
            asyncio.run(_work())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert progress._loop_watcher == event_loops._first_event_loop
    assert not trace.get_current_span().get_span_context().is_valid
