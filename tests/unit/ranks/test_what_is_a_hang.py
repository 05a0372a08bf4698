"""What the watchdog takes for a hang, with a clock of the test and real steps, phases and calls."""

from __future__ import annotations

import dataclasses
import gc
import io
import os
import pdb  # noqa: T100 - a test of it
import sys
import threading
import weakref

import pytest
from opentelemetry.context import attach, get_current

from otel_rl.core import clock as clocks
from otel_rl.core import settings
from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.ring import create
from otel_rl.process import process_identity
from otel_rl.ranks import watchdog
from otel_rl.ranks.watchdog import peers, reports, stacks, thread
from otel_rl.ranks.watchdog.step_times import FIRST_STEPS
from otel_rl.semconv import spans
from otel_rl.telemetry import lifecycle, progress
from otel_rl.telemetry.scope import Scope
from otel_rl.tools.calls import ToolCall
from otel_rl.training import steps
from otel_rl.training.phases import Phase

SCOPE = Scope("test")
MINIMUM = 60.0


class Program:
    """A program that trains, and its watchdog, which wakes once a second."""

    def __init__(self, monkeypatch):
        self.seconds = 0.0
        monkeypatch.setattr(thread, "monotonic", lambda: self.seconds)
        monkeypatch.setattr(clocks, "counter", lambda: self.seconds)
        self.lines = []
        monkeypatch.setattr(reports, "write_line", self.lines.append)
        self.loop = steps.Loop()
        self.watchdog = thread.Watchdog(MINIMUM)
        self.number = 0
        self.context = get_current()
        steps.openers.add(self.watchdog.times.began)
        steps.contributors.add(self.watchdog.times.ended)

    def stop(self):
        self.loop.finish()
        # Loops whose steps overlap leave their contexts in another order.
        attach(self.context)
        steps.openers.remove(self.watchdog.times.began)
        steps.contributors.remove(self.watchdog.times.ended)

    def begin_step(self):
        self.number += 1
        self.loop.begin(self.number, SCOPE)

    def passes(self, seconds):
        for _ in range(seconds):
            self.seconds += 1
            self.watchdog.look()

    def trains(self, steps, seconds=1):
        for _ in range(steps):
            self.begin_step()
            self.passes(seconds)
        self.begin_step()
        self.passes(1)


@pytest.fixture
def alone(monkeypatch):
    """Without what other tests of this process may have left: phases that are open, threads, a rank."""
    monkeypatch.setattr(progress, "_open_phases", {})
    monkeypatch.setattr(progress, "_sources", [])
    identity, frames = process_identity.current, sys._current_frames
    monkeypatch.setattr(process_identity, "current", lambda: dataclasses.replace(identity(), rank=None))
    others = frames().keys() - {threading.main_thread().ident}
    remaining = lambda: {thread: frame for thread, frame in frames().items() if thread not in others}  # noqa: E731
    monkeypatch.setattr(sys, "_current_frames", remaining)


@pytest.fixture
def program(recorded, alone, monkeypatch):
    program = Program(monkeypatch)
    yield program
    program.stop()


def test_a_step_without_progress_is_reported_once_with_the_stacks(program, recorded):
    program.trains(FIRST_STEPS)
    program.passes(59)
    assert recorded.events("rl.hang") == []
    program.passes(200)
    (event,) = recorded.events("rl.hang")
    assert event.attributes["rl.hang.duration"] == 60.0
    assert event.attributes["rl.loop.iteration"] == FIRST_STEPS + 1
    assert event.body.startswith("no progress for 60 s in step 6\n")
    assert program.lines == [f"otel-rl: process {os.getpid()} may hang: no progress for 60 s in step 6"]


def test_a_hang_says_which_call_it_waits_for(program, recorded, monkeypatch):
    program.trains(FIRST_STEPS)
    monkeypatch.setattr(program.watchdog.calls, "hanging", lambda: "tool run_sandbox of rollout r-1")
    program.passes(60)
    (event,) = recorded.events("rl.hang")
    assert event.body.startswith("no progress for 60 s in step 6, waits for tool run_sandbox of rollout r-1\n")


def test_a_hang_in_training_does_not_wait_for_a_rollout_that_is_made_ahead(program, recorded, monkeypatch):
    program.trains(FIRST_STEPS)
    monkeypatch.setattr(program.watchdog.calls, "hanging", lambda: "tool run_sandbox of rollout r-40")
    with Phase(spans.RL_TRAIN, SCOPE):
        program.passes(61)
    (event,) = recorded.events("rl.hang")
    assert event.body.startswith(
        "no progress for 60 s in step 6 (train); meanwhile tool run_sandbox of rollout r-40 is open\n"
    )


def test_the_event_lies_in_the_trace_of_the_step(program, recorded):
    program.trains(FIRST_STEPS)
    program.passes(61)
    (event,) = recorded.events("rl.hang")
    assert event.trace_id == program.loop.step.trace_id


def test_the_end_of_a_hang_is_reported_with_its_whole_duration(program, recorded):
    program.trains(FIRST_STEPS)
    program.passes(99)
    program.loop.finish()
    program.passes(1)
    (event,) = recorded.events("rl.hang.end")
    assert event.attributes["rl.hang.duration"] == 99.0
    assert program.lines[1].endswith("goes on after 99 s without progress")


def test_long_steps_may_stand_still_ten_times_as_long_as_usual(program, recorded):
    program.trains(FIRST_STEPS, seconds=20)
    program.passes(199)
    assert recorded.events("rl.hang") == []
    program.passes(2)
    assert len(recorded.events("rl.hang")) == 1


def test_of_several_loops_the_one_with_the_longest_steps_counts(program, recorded):
    slow = program.loop
    program.trains(FIRST_STEPS, seconds=20)
    program.loop = steps.Loop("quick")
    program.trains(FIRST_STEPS)
    program.passes(199)
    assert recorded.events("rl.hang") == []
    slow.finish()
    program.passes(61)
    assert len(recorded.events("rl.hang")) == 1


def test_steps_that_have_ended_are_not_kept_until_the_watchdog_wakes(program):
    program.begin_step()
    step = weakref.ref(program.loop.step)
    program.begin_step()
    gc.collect()
    assert step() is None


def test_the_first_steps_are_not_judged(program, recorded):
    program.trains(FIRST_STEPS - 1)
    program.passes(500)
    assert recorded.events("rl.hang") == []


def test_between_the_steps_of_a_trainer_standing_still_is_a_hang_and_after_training_it_is_none(program, recorded):
    program.trains(FIRST_STEPS)
    program.loop.finish()
    program.passes(500)
    assert recorded.events("rl.hang") == []
    program.loop.running = True
    program.passes(1)
    (event,) = recorded.events("rl.hang")
    assert event.body.splitlines()[0].endswith("between two steps")


@pytest.mark.parametrize("kind", [spans.RL_CHECKPOINT, spans.RL_EVALUATE])
def test_a_checkpoint_and_an_evaluation_may_be_long_and_what_follows_gets_the_whole_limit(program, recorded, kind):
    program.trains(FIRST_STEPS)
    with Phase(kind, SCOPE):
        program.passes(500)
    program.passes(59)
    assert recorded.events("rl.hang") == []
    program.passes(2)
    assert len(recorded.events("rl.hang")) == 1


@pytest.mark.parametrize("kind", [spans.RL_CHECKPOINT, spans.RL_EVALUATE])
def test_a_call_outside_of_rollouts_may_be_long_in_them(program, recorded, kind, monkeypatch):
    monkeypatch.setattr(progress, "monotonic", lambda: program.seconds)
    progress.ended_calls()
    progress.watch_calls(lambda _: None)
    try:
        program.trains(1)
        with Phase(kind, SCOPE), ToolCall(SCOPE, "benchmark"):
            program.passes(200)
        assert recorded.events("rl.call.hang") == []
        with ToolCall(SCOPE, "search"):
            program.passes(2001)
        assert len(recorded.events("rl.call.hang")) == 1
    finally:
        progress.watch_calls(None)


def test_a_generation_without_any_call_may_be_long(program, recorded):
    program.trains(FIRST_STEPS)
    with Phase(spans.RL_SAMPLE, SCOPE):
        program.passes(500)
    assert recorded.events("rl.hang") == []


def test_a_generation_by_calls_hangs_when_they_stop(program, recorded):
    program.trains(FIRST_STEPS)
    with Phase(spans.RL_SAMPLE, SCOPE):
        program.passes(1)
        for _ in range(10):
            progress.call_ended()
            program.passes(50)
        assert recorded.events("rl.hang") == []
        program.passes(11)
    (event,) = recorded.events("rl.hang")
    assert event.attributes["rl.phase"] == "sample"


def test_an_engine_in_this_process_may_generate_for_long_after_the_prompts_were_gathered(program, recorded):
    """Gathering is a collective in the phase, and no call that has ended."""
    calls = [0]
    progress.add_source(calls.copy)
    program.trains(FIRST_STEPS)
    with Phase(spans.RL_SAMPLE, SCOPE):
        program.passes(1)
        calls[0] += 1
        program.passes(500)
    assert recorded.events("rl.hang") == []


def test_collectives_are_progress(program, recorded):
    calls = [0]
    progress.add_source(calls.copy)
    program.trains(FIRST_STEPS)
    for _ in range(10):
        calls[0] += 1
        program.passes(50)
    progress.remove_source(calls.copy)
    assert recorded.events("rl.hang") == []


def test_time_in_which_the_watchdog_did_not_run_itself_is_no_hang(program, recorded):
    program.trains(FIRST_STEPS)
    program.seconds += 10_000
    program.passes(50)
    assert recorded.events("rl.hang") == []


@pytest.mark.parametrize(("seconds", "watches"), [("off", 0), ("0.5", 1)])
def test_a_process_that_switches_it_off_watches_no_step_and_no_call(monkeypatch, seconds, watches):
    monkeypatch.setenv("OTEL_RL_HANG_SECONDS", seconds)
    settings.reset()
    watchers = []
    monkeypatch.setattr(progress, "watch_calls", watchers.append)
    monkeypatch.setattr(lifecycle, "after_fork_in_child", lambda _: None)
    for subscribers in (steps.openers, steps.contributors):
        monkeypatch.setattr(subscribers, "callbacks", [])
    watchdog.arm()
    settings.reset()
    assert [len(steps.openers.callbacks), len(steps.contributors.callbacks), len(watchers)] == [watches] * 3


@pytest.mark.parametrize("file", ["torch/_dynamo/convert_frame.py", "torch/serialization.py"])
def test_a_thread_that_compiles_or_saves_may_take_long_and_what_follows_gets_the_whole_limit(program, recorded, file):
    begun, over = threading.Event(), threading.Event()
    code = compile("begun.set(); over.wait()", f"/site-packages/{file}", "exec")
    worker = threading.Thread(target=lambda: exec(code, {"begun": begun, "over": over}))  # noqa: S102
    program.trains(FIRST_STEPS)
    worker.start()
    begun.wait()
    program.passes(119)
    over.set()
    worker.join()
    program.passes(60)
    assert recorded.events("rl.hang") == []
    program.passes(10)
    assert len(recorded.events("rl.hang")) == 1


def test_a_thread_in_the_debugger_may_take_as_long_as_it_likes(program, recorded):
    asked, reading_end, writing_end = threading.Event(), *os.pipe()

    class Output(io.StringIO):
        def write(self, text):
            if "(Pdb)" in text:
                asked.set()
            return super().write(text)

    def debugs(commands):
        pdb.Pdb(stdin=commands, stdout=Output(), nosigint=True, readrc=False).set_trace()
        return commands

    with os.fdopen(reading_end) as commands, os.fdopen(writing_end, "w") as person:
        worker = threading.Thread(target=debugs, args=(commands,))
        program.trains(FIRST_STEPS)
        worker.start()
        assert asked.wait(60)
        program.passes(500)
        person.write("continue\n")
        person.flush()
        worker.join()
    assert recorded.events("rl.hang") == []
    program.passes(121)
    assert len(recorded.events("rl.hang")) == 1


def test_while_a_hang_is_reported_the_objects_of_a_thread_are_freed_by_that_thread(program, monkeypatch):
    class Held:
        pass

    freed_by, begun, over = [], threading.Event(), threading.Event()

    def work():
        held = Held()
        weakref.finalize(held, lambda: freed_by.append(threading.get_ident()))
        begun.set()
        over.wait()

    worker = threading.Thread(target=work)

    def write(line):
        program.lines.append(line)
        over.set()
        worker.join()

    monkeypatch.setattr(reports, "write_line", write)
    program.trains(FIRST_STEPS)
    worker.start()
    begun.wait()
    program.passes(61)
    assert program.lines
    assert freed_by == [worker.ident]


def test_without_a_ring_the_stack_names_the_collective(program, recorded):
    begun, over = threading.Event(), threading.Event()
    text = "def all_gather_into_tensor():\n    begun.set()\n    over.wait()\nall_gather_into_tensor()"
    code = compile(text, "/site-packages/torch/distributed/distributed_c10d.py", "exec")
    worker = threading.Thread(target=lambda: exec(code, {"begun": begun, "over": over}))  # noqa: S102
    program.trains(FIRST_STEPS)
    worker.start()
    begun.wait()
    program.passes(61)
    over.set()
    worker.join()
    assert recorded.events("rl.hang")[0].attributes["torch.distributed.operation"] == "all_gather"
    assert program.lines[0].endswith("in step 6, waits in all_gather")


@pytest.fixture
def ring_of_rank_1(program, tmp_path, monkeypatch):
    """Beside the ring of this process."""
    mine, other = (create(tmp_path, f"otel-rl-run-{rank}") for rank in range(2))
    for rank, ring in enumerate((mine, other)):
        ring.identify("run", "0.0.0", "node", (rank, 2, rank))
    monkeypatch.setattr(thread.flight, "ring", mine)
    return other


def test_what_a_peer_in_a_checkpoint_keeps_waiting_does_not_hang(program, recorded, ring_of_rank_1):
    checkpoint = ring_of_rank_1.begin(layout.PHASE, "checkpoint")
    program.trains(FIRST_STEPS)
    program.passes(500)
    assert recorded.events("rl.hang") == []
    ring_of_rank_1.end(checkpoint, False)
    program.passes(59)
    assert recorded.events("rl.hang") == []
    program.passes(10)
    assert len(recorded.events("rl.hang")) == 1


def test_a_silent_peer_is_named(program, recorded, ring_of_rank_1, monkeypatch):
    monkeypatch.setattr(peers, "SILENT", 0.0)
    program.trains(FIRST_STEPS)
    program.passes(61)
    line, _ = program.lines[0].split("; `otel-rl")
    assert line.endswith("; rank 1 gave no heartbeat for 0 s, it may hold the GIL or be stopped")


def test_the_ring_of_this_process_before_an_exec_is_no_peer(program, recorded, ring_of_rank_1, monkeypatch):
    ring_of_rank_1.identify("run", "0.0.0", "node", (0, 2, 0))
    monkeypatch.setattr(peers, "SILENT", 0.0)
    program.trains(FIRST_STEPS)
    program.passes(61)
    assert "heartbeat" not in program.lines[0]


@pytest.mark.parametrize("how", ["ended", "another run", "damaged"])
def test_a_peer_that_is_none_any_more_is_not_named(program, recorded, ring_of_rank_1, monkeypatch, how):
    monkeypatch.setattr(peers, "SILENT", 0.0)
    if how == "ended":
        ring_of_rank_1.finish("")
    elif how == "another run":
        ring_of_rank_1.identify("other", "0.0.0", "node", (1, 2, 1))
    else:
        ring_of_rank_1.buffer[:8] = b"damaged."
    program.trains(FIRST_STEPS)
    program.passes(61)
    assert "rank 1" not in program.lines[0]


def test_text_that_the_users_function_withholds_is_not_recorded(program, recorded, monkeypatch):
    monkeypatch.setattr("otel_rl.telemetry.redaction.redact", lambda: lambda _: "[private]")
    program.trains(FIRST_STEPS)
    program.passes(61)
    assert recorded.events("rl.hang")[0].body == "[private]"


def test_stacks_are_bounded_and_begin_with_the_main_thread():
    def deep(depth):
        if depth:
            deep(depth - 1)
        else:
            ready.set()
            over.wait()

    ready, over, text = threading.Event(), threading.Event(), []
    worker = threading.Thread(target=deep, args=(200,), name="deep")
    worker.start()
    ready.wait()
    watcher = threading.Thread(target=lambda: text.append(stacks.capture().text))
    watcher.start()
    watcher.join()
    over.set()
    worker.join()
    parts = text[0].split("thread ")
    assert parts[1].startswith("MainThread:")
    (deep_one,) = (part for part in parts if part.startswith("deep:"))
    assert "outer frames)" in deep_one
    assert deep_one.count("File") == stacks.FRAMES
    assert watcher.name not in text[0]
