"""What is a block of an event loop and what is none: real loops in a thread, with looks and a clock of the test."""

from __future__ import annotations

import asyncio
import gc
import queue
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import otel_rl
from otel_rl.core import code_places, threads
from otel_rl.event_loops import blocks, ping
from otel_rl.event_loops import thread as loops_thread
from otel_rl.event_loops.stacks import RunningCall
from otel_rl.event_loops.thread import EventLoopWatch
from otel_rl.event_loops.thread_time import ThreadInterval, ThreadTime
from otel_rl.inference import servers
from otel_rl.inference.calls import InferenceCall
from otel_rl.inference.engine_calls import EngineCall
from otel_rl.inference.requests import ModelRequest, endpoint_of
from otel_rl.runtime_metrics import garbage
from otel_rl.telemetry import progress
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from concurrent.futures import Future

SCOPE = Scope("test")
LIMIT = 0.2
LOOK = LIMIT / 8
TIMEOUT = 60


class Gate:
    """Code of the program that runs until the test lets it go on."""

    def __init__(self) -> None:
        self._entered, self._left = threading.Semaphore(0), threading.Semaphore(0)

    def search(self) -> None:
        """Blocks."""
        self._entered.release()
        assert self._left.acquire(timeout=TIMEOUT)

    def is_entered(self) -> None:
        assert self._entered.acquire(timeout=TIMEOUT)

    def leave(self) -> None:
        self._left.release()


class Program:
    """An event loop in a thread of its own; the test looks at it when it likes."""

    def __init__(self, new_loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(loops_thread, "monotonic", lambda: self.now)
        monkeypatch.setattr(ping, "monotonic", lambda: self.now)
        monkeypatch.setattr(threads.PeriodicThread, "start", lambda _: None)
        self.loops = EventLoopWatch(LIMIT)
        progress.watch_event_loops(self.loops.notice)
        self.asked = 0
        self.loop = new_loop()
        ready: queue.Queue[None] = queue.Queue()
        self.thread = threading.Thread(target=self._run, args=(ready,))
        self.thread.start()
        ready.get(timeout=TIMEOUT)

    def _run(self, ready: queue.Queue[None]) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(ready.put, None)
        self.loop.run_forever()

    def submit(self, coroutine: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def notice(self) -> None:
        """An operation of ours begins in the loop."""
        self.submit(_operation()).result(TIMEOUT)
        self.settle()

    def settle(self) -> None:
        """The loop has come round and waits."""
        for _ in range(2):
            self.submit(asyncio.sleep(0)).result(TIMEOUT)

    def look(self, times: int = 1, seconds: float = LOOK) -> None:
        for _ in range(times):
            self.now += seconds
            self.loops._look()

    def stop(self) -> None:
        progress.watch_event_loops(None)
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(TIMEOUT)
        self.loop.close()


async def _operation() -> None:
    progress.event_loop()


def _new_uvloop() -> Any:
    return pytest.importorskip("uvloop").new_event_loop()


@pytest.fixture(params=[asyncio.new_event_loop, _new_uvloop], ids=["asyncio", "uvloop"])
def program(request, recorded, monkeypatch):
    program = Program(request.param, monkeypatch)
    yield program
    program.stop()


def _blocks(recorded: Any) -> list[Any]:
    return recorded.events("rl.event_loop.blocked")


def test_a_step_of_a_task_that_blocks_is_told_with_its_function_task_and_the_open_rollouts(program, recorded):
    gate = Gate()

    async def agent():
        with otel_rl.rollout():
            gate.search()

    async def other(over):
        with otel_rl.rollout():
            await over.wait()

    over = asyncio.Event()
    others = [program.submit(other(over)) for _ in range(3)]
    program.settle()
    running = program.submit(agent())
    gate.is_entered()
    program.look(times=20)
    assert _blocks(recorded) == []
    gate.leave()
    running.result(TIMEOUT)
    program.settle()
    program.look()
    [event] = _blocks(recorded)
    values = event.attributes
    assert values["code.function.name"] == f"{__name__}.{_qualified('Gate.search')}"
    assert values["code.file.path"] == __file__[-200:]
    assert values["rl.event_loop.blocked.duration"] == pytest.approx(20 * LOOK, abs=2 * LOOK)
    assert values["rl.event_loop.blocked.state"] == "waits"
    assert values["rl.event_loop.rollouts"] == 4
    assert values["rl.event_loop.coroutine"].endswith("agent")
    assert values["rl.event_loop.task"].startswith("Task-")
    assert ", in agent\n" in event.body
    assert ", in search\n" in event.body
    program.loop.call_soon_threadsafe(over.set)
    for one in others:
        one.result(TIMEOUT)


def _qualified(name: str) -> str:
    return name if sys.version_info >= (3, 11) else name.rpartition(".")[2]


def test_a_plain_callback_that_blocks_is_told_too(program, recorded):
    gate = Gate()
    program.notice()
    program.loop.call_soon_threadsafe(gate.search)
    gate.is_entered()
    program.look(times=10)
    gate.leave()
    program.settle()
    program.look()
    [event] = _blocks(recorded)
    assert event.attributes["code.function.name"].endswith("search")
    assert "rl.event_loop.task" not in event.attributes


@pytest.mark.parametrize("kind", ["tasks", "callbacks"])
def test_many_short_steps_in_one_turn_of_the_loop_are_no_block(program, recorded, kind):
    """The loop does not come round for half a second, and nobody blocks it."""
    gates = [Gate() for _ in range(8)]

    async def brief(gate):
        gate.search()

    async def crowd():
        if kind == "tasks":
            await asyncio.gather(*[brief(gate) for gate in gates])
        else:
            for gate in gates:
                asyncio.get_running_loop().call_soon(gate.search)

    program.notice()
    running = program.submit(crowd())
    for gate in gates:
        gate.is_entered()
        program.look(times=3)
        gate.leave()
    running.result(TIMEOUT)
    program.settle()
    program.look()
    assert _blocks(recorded) == []
    lags = recorded.metrics()["rl.event_loop.lag"][0] if _lag_is_due(program) else None
    assert lags is not None
    assert lags.max > 2 * LIMIT


def test_what_waited_for_one_turn_of_the_loop_does_not_wait_for_the_next_too(program, recorded):
    program.notice()
    for _ in range(8):
        gate = Gate()
        program.loop.call_soon_threadsafe(gate.search)
        gate.is_entered()
        program.look(times=3)
        gate.leave()
        program.settle()
        program.look()
    assert _lag_is_due(program)
    assert recorded.metrics()["rl.event_loop.lag"][0].max < 8 * LOOK


def _lag_is_due(program: Program) -> bool:
    program.look(seconds=2.0)
    return True


def test_each_of_two_blocks_in_one_turn_of_the_loop_is_told_with_its_own_function(program, recorded):
    first, second = Gate(), Gate()

    def another():
        second.search()

    async def both():
        loop = asyncio.get_running_loop()
        loop.call_soon(first.search)
        loop.call_soon(another)

    program.notice()
    program.submit(both())
    for gate in (first, second):
        gate.is_entered()
        program.look(times=12)
        gate.leave()
    program.settle()
    program.look()
    assert len(_blocks(recorded)) == 2
    assert [", in another" in event.body for event in _blocks(recorded)] == [False, True]
    assert [event.attributes["rl.event_loop.blocked.number"] for event in _blocks(recorded)] == [1, 2]


def test_a_block_shorter_than_the_limit_is_none(program, recorded):
    gate = Gate()
    program.notice()
    program.loop.call_soon_threadsafe(gate.search)
    gate.is_entered()
    program.look(times=6)
    gate.leave()
    program.settle()
    program.look()
    assert _blocks(recorded) == []


def test_a_call_that_was_seen_once_is_no_block_however_late_the_looks_are(program, recorded):
    gate = Gate()
    program.notice()
    program.loop.call_soon_threadsafe(gate.search)
    gate.is_entered()
    program.look(seconds=LIMIT / 2)
    program.now += LIMIT / 2
    gate.leave()
    program.settle()
    program.look(seconds=0)
    assert _blocks(recorded) == []


def test_a_call_that_holds_the_gil_is_a_block_though_it_was_seen_once(program, recorded, monkeypatch):
    """As our thread cannot look while it lasts, the first look is the last one."""
    gate = Gate()
    program.notice()
    program.loop.call_soon_threadsafe(gate.search)
    gate.is_entered()
    monkeypatch.setattr(
        ThreadTime, "stretch", lambda _, passed, *__: ThreadInterval(passed, passed, held_gil=passed > LIMIT)
    )
    program.look(seconds=0.5)
    gate.leave()
    program.settle()
    program.look()
    [event] = _blocks(recorded)
    assert event.attributes["code.function.name"].endswith("search")


def test_time_in_which_others_had_the_cpu_is_no_block(program, recorded, monkeypatch):
    gate = Gate()
    program.notice()
    monkeypatch.setattr(ThreadTime, "without_cpu", lambda _, stretch: 0.9 * stretch.seconds)
    program.loop.call_soon_threadsafe(gate.search)
    gate.is_entered()
    program.look(times=40)
    gate.leave()
    program.settle()
    program.look()
    assert _blocks(recorded) == []


def test_a_loop_that_waits_is_never_woken(program, recorded, monkeypatch):
    program.notice()
    program.look(times=3)
    program.settle()
    program.look(times=2)
    watched = next(iter(program.loops._watched.values()))
    monkeypatch.setattr(ping.Ping, "send", lambda *_: pytest.fail("asked a loop that waits"))
    program.look(times=50)
    assert watched._ping is None
    assert _blocks(recorded) == []


def test_a_loop_that_does_not_run_is_not_blocked_and_forgotten(program, recorded):
    program.notice()
    program.look()
    program.loop.call_soon_threadsafe(program.loop.stop)
    program.thread.join(TIMEOUT)
    program.look(times=100)
    assert program.loops._watched == {}
    assert _blocks(recorded) == []


def test_a_process_that_was_stopped_did_not_block(program, recorded):
    gate = Gate()
    program.notice()
    program.loop.call_soon_threadsafe(gate.search)
    gate.is_entered()
    program.look()
    program.look(seconds=3600)
    program.look()
    gate.leave()
    program.settle()
    program.look(seconds=2)
    assert _blocks(recorded) == []
    assert recorded.metrics()["rl.event_loop.lag"][0].max < 1


def test_a_long_block_is_told_while_it_lasts_and_at_its_end(program, recorded):
    gate = Gate()
    program.notice()
    program.loop.call_soon_threadsafe(gate.search)
    gate.is_entered()
    program.look(times=int(12 / LOOK))
    [event] = _blocks(recorded)
    assert event.attributes["rl.event_loop.blocked.ongoing"] is True
    gate.leave()
    program.settle()
    program.look()
    _, event = _blocks(recorded)
    assert event.attributes["rl.event_loop.blocked.number"] == 1
    assert event.attributes["rl.event_loop.blocked.total"] == pytest.approx(12, abs=0.1)
    assert "rl.event_loop.blocked.ongoing" not in event.attributes
    [duration] = recorded.metrics()["rl.event_loop.blocked.duration"]
    assert duration.count == 1


def test_a_block_that_lasts_to_the_end_of_the_process_is_told(program, recorded):
    gate = Gate()
    program.notice()
    program.loop.call_soon_threadsafe(gate.search)
    gate.is_entered()
    program.look(times=20)
    program.loops._ends = True
    program.look()
    gate.leave()
    assert len(_blocks(recorded)) == 1
    assert program.loops._watched == {}


def test_a_program_that_blocks_all_the_time_emits_few_events_and_counts_all(program, recorded):
    program.notice()
    for _ in range(100):
        gate = Gate()
        program.loop.call_soon_threadsafe(gate.search)
        gate.is_entered()
        program.look(times=10, seconds=LOOK)
        gate.leave()
        program.settle()
        program.look()
    assert 60 <= len(_blocks(recorded)) <= 64
    [duration] = recorded.metrics()["rl.event_loop.blocked.duration"]
    assert duration.count == 100


def test_what_a_callback_holds_is_freed_by_the_thread_of_the_loop(program):
    freed = []

    class Held:
        def __del__(self):
            freed.append(threading.get_ident())

    gate = Gate()

    def callback():
        held = Held()
        gate.search()
        del held

    def leaves_it():
        held = Held()
        gate.search()
        return held is None

    program.notice()
    for function in (callback, leaves_it):
        program.loop.call_soon_threadsafe(function)
        gate.is_entered()
        program.look(times=3)
        gate.leave()
        program.settle()
        program.look()
    assert freed == [program.thread.ident] * 2


def test_neither_a_loop_nor_its_tasks_are_kept_alive(program):
    loop = asyncio.new_event_loop()
    seen = []

    async def works():
        progress.event_loop()
        seen.append(weakref.ref(asyncio.current_task()))
        program.look(times=2)
        seen.append(asyncio.all_tasks())

    loop.run_until_complete(works())
    assert len(seen.pop()) == 1
    loop.close()
    seen.append(weakref.ref(loop))
    del loop
    gc.collect()
    assert [one() for one in seen] == [None, None]
    program.look()
    assert program.loops._watched == {}


def test_a_loop_may_run_again_and_in_another_thread(program, recorded):
    program.notice()
    program.look()
    program.loop.call_soon_threadsafe(program.loop.stop)
    program.thread.join(TIMEOUT)
    gate = Gate()

    async def works():
        progress.event_loop()
        gate.search()

    program.thread = threading.Thread(target=lambda: program.loop.run_until_complete(works()))
    program.thread.start()
    gate.is_entered()
    program.look(times=20)
    gate.leave()
    program.thread.join(TIMEOUT)
    program.look()
    # It has ended without coming round: what blocked it is told all the same.
    assert len(_blocks(recorded)) == 1


def test_a_closed_loop_a_foreign_loop_and_one_that_raises_are_let_go(program, monkeypatch):
    class Foreign:
        def is_closed(self):
            return False

        def is_running(self):
            raise RuntimeError("not a loop")

    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    foreign = Foreign()
    program.loops.notice(foreign)
    program.loops.notice(object())
    program.look()
    assert program.loops._watched == {}


def test_a_forked_child_has_no_rollouts_of_its_parent(program):
    async def works():
        with otel_rl.rollout():
            return progress.open_in_event_loop(progress.ROLLOUTS, id(program.loop))

    program.notice()
    assert program.submit(works()).result(TIMEOUT) == 1
    progress._forget()
    assert progress.open_in_event_loop(progress.ROLLOUTS, id(program.loop)) == 0


def test_model_calls_count_in_the_loop_they_began_in_until_their_answer_is_there(program):
    def count():
        return progress.open_in_event_loop(progress.MODEL_CALLS, id(program.loop))

    async def calls():
        request = ModelRequest(endpoint_of("/v1/chat/completions"), servers.server("127.0.0.1", 8000), {"model": "m"})
        made = EngineCall(SCOPE, "chat", "vllm", "m"), InferenceCall(SCOPE, request)
        return made, count()

    outside = EngineCall(SCOPE, "chat", "vllm", "m")
    made, number = program.submit(calls()).result(TIMEOUT)
    assert number == 2
    for call in made:
        call.finish()
    outside.finish()
    assert count() == 0


def test_code_without_a_running_loop_has_none(program):
    assert progress.event_loop() == 0


def test_a_pause_of_the_garbage_collector_is_not_laid_to_the_code_that_it_interrupted():
    """Nothing else of the thread is seen of it: other threads run once our callback does."""
    frames: list[Any] = []

    class Info(dict[str, Any]):
        def __missing__(self, key: str) -> int:
            frames.append(sys._getframe(1))
            return 2

    pauses = garbage.Pauses()
    pauses._collector("start", Info())
    pauses._collector("stop", Info())
    (frame,) = frames
    running = blocks.Running(None, RunningCall(frame, frame), ping.Ping())
    running.see(RunningCall(frame, frame))
    place = running.block().place
    assert place == code_places.GARBAGE_COLLECTION


def test_functions_of_the_program_come_before_those_of_libraries():
    rank = code_places.rank_of
    assert rank(__file__) > rank(pytest.__file__) > rank(threading.__file__)
    assert rank("<frozen importlib._bootstrap>") == rank(asyncio.__file__)
    assert rank("/tmp/ipykernel_7/1.py") == rank("<stdin>") == rank(__file__)  # noqa: S108
    assert rank(otel_rl.__file__) < rank(__file__)
