"""What the rooms of the package put into the ring: steps, phases, their parts, tools, model calls, collectives."""

from __future__ import annotations

import gc
import os
import signal
import threading
from itertools import count

import pytest

from otel_rl.collectives.flight_records import FlightRecords, ThreadCodes
from otel_rl.collectives.recorder import CollectiveRecorder
from otel_rl.core import guard
from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder import recorder as recorder_module
from otel_rl.flight_recorder.reader import read
from otel_rl.inference.calls import InferenceCall
from otel_rl.inference.requests import CHAT, ModelRequest
from otel_rl.inference.servers import server
from otel_rl.semconv import spans
from otel_rl.telemetry import Scope
from otel_rl.tools.calls import ToolCall
from otel_rl.training import steps
from otel_rl.training.parts import Part
from otel_rl.training.phases import Phase

_scope = Scope("test")


class ExpectedError(Exception):
    """Raised by the tests."""


def _open(flight) -> list[str]:
    return [one.name or str(one.argument) for one in read(flight.ring.path).open]


def _over(flight) -> list[tuple[str, int]]:
    return [(one.name or str(one.argument), one.what) for one in read(flight.ring.path).records]


def test_steps_phases_parts_and_tools_are_open_while_they_run(recorded, flight):
    step = steps.begin(3, _scope)
    with Phase(spans.RL_TRAIN, _scope):
        part = Part(spans.RL_BACKWARD, _scope, step, has_span=False)
        with ToolCall(_scope, "search"):
            assert _open(flight) == ["3", "train", "backward", "search"]
        part.close()
    steps.where().loop.finish()
    assert _open(flight) == []
    assert _over(flight) == [(name, layout.DONE) for name in ("search", "backward", "train", "3")]


def test_what_raises_is_marked(recorded, flight):
    steps.begin(3, _scope)
    with pytest.raises(ExpectedError), Phase(spans.RL_TRAIN, _scope), ToolCall(_scope, "search"):
        raise ExpectedError
    steps.where().loop.finish("ExpectedError")
    assert {outcome for _, outcome in _over(flight)} == {layout.FAILED}


def test_a_phase_that_is_suspended_is_not_open_and_neither_are_its_parts(recorded, flight):
    step = steps.begin(1, _scope)
    with Phase(spans.RL_TRAIN, _scope):
        part = Part(spans.RL_BACKWARD, _scope, step, has_span=False)
        with Phase(spans.RL_SAMPLE, _scope):
            assert _open(flight) == ["1", "sample"]
        assert _open(flight) == ["1", "train", "backward"]
        part.close()
    steps.finish()
    assert _open(flight) == []


def test_the_name_of_a_loop_is_kept(recorded, flight):
    loop = steps.loop_for_next_step("critic")
    loop.begin(1, _scope)
    assert _open(flight) == ["critic"]
    loop.finish()


def test_loops_without_a_name_have_numbers_in_the_order_of_their_first_steps(recorded, flight, monkeypatch):
    monkeypatch.setattr(steps, "_numbers", count())
    first, second = steps.Loop(), steps.Loop()
    for loop in (first, second):
        loop.begin(1, _scope)
    assert [(one.name, one.argument, one.loop) for one in read(flight.ring.path).open] == [("", 1, 0), ("", 1, 1)]
    second.finish()
    first.finish()
    assert [(one.argument, one.loop) for one in read(flight.ring.path).records] == [(1, 1), (1, 0)]


def test_an_operation_that_a_signal_handler_has_taken_its_owner_from_is_over(recorded, flight):
    """The handler of a deadline raises between our begin and the program's own block."""

    def interrupt(*_):
        raise ExpectedError

    steps.begin(1, _scope)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        for _ in range(3):
            with pytest.raises(ExpectedError):
                _begin_and_interrupt()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert _open(flight) == ["1"]
    assert _over(flight) == [("search", layout.FAILED)] * 3
    steps.finish()
    assert _open(flight) == []


def _begin_and_interrupt():
    call = ToolCall(_scope, "search").start()
    signal.raise_signal(signal.SIGUSR1)
    call.end(None)


class _Work:
    def bare_wait(self):
        return "waited"


class _Group:
    group_name, group_desc = "0", "default_pg"

    def __init__(self):
        self.number = 0

    def size(self):
        return 2

    def _get_sequence_number_for_group(self):
        return self.number


def _recorded_group(operation="all_reduce", call=None, *, adds=1):
    def issue(group, *_):
        group.number += adds
        return _Work()

    recorder = CollectiveRecorder()
    recorder.flight_records = FlightRecords(lambda group: f"{group.group_name}\tpg\t0-1", lambda run, *args: run(*args))
    _Work.wait = recorder.waiting(_Work.bare_wait)
    return type("Group", (_Group,), {"method": recorder.recording(operation, None, call or issue)})(), recorder


def test_a_collective_and_its_wait_have_group_and_number(flight):
    group, _ = _recorded_group()
    for _ in range(2):
        assert group.method("tensor", "options").wait() == "waited"
    found = [(one.kind, one.name, one.group, one.sequence) for one in read(flight.ring.path).records]
    assert found == [
        (kind, "all_reduce", "0\tpg\t0-1", number) for number in (1, 2) for kind in (layout.COLLECTIVE, layout.WAIT)
    ]


def test_a_collective_is_open_inside_its_call_and_a_wait_inside_its(flight):
    seen = []

    def issue(group, *_):
        seen.extend((one.kind, one.sequence) for one in read(flight.ring.path).open)
        return _Work()

    group, _ = _recorded_group(call=issue)
    group.method("tensor", "options")
    assert seen == [(layout.COLLECTIVE, 1)]


@pytest.mark.parametrize("inside", ["launch", "wait"])
def test_a_collective_that_hangs_stays_in_the_ring_whatever_other_threads_do(flight, inside):
    seen = []

    def hang(*_):
        other = flight.ring
        for number in range(2 * layout.COLLECTIVES):
            other.end(other.begin(layout.COLLECTIVE, "broadcast", 0, "other", number), False)
        seen.extend((one.kind, one.name, one.sequence) for one in read(other.path).open)
        return _Work()

    group, recorder = _recorded_group(call=hang if inside == "launch" else None)
    work = group.method("tensor", "options")
    if inside == "wait":
        _Work.wait = recorder.waiting(hang)
        work.wait()
    assert seen == [(layout.COLLECTIVE if inside == "launch" else layout.WAIT, "all_reduce", 1)]


def test_a_child_forked_inside_a_collective_does_not_end_that_of_its_parent(flight):
    parent, seen = os.getpid(), []

    def issue(*_):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            seen.extend(one.kind for one in read(flight.ring.path).open)
        return _Work()

    group, _ = _recorded_group(call=issue)
    try:
        group.method("tensor", "options").wait()
    finally:
        if os.getpid() != parent:
            os._exit(0)
    assert seen == [layout.COLLECTIVE]
    assert [one.what for one in read(flight.ring.path).records] == [layout.DONE, layout.DONE]


def test_a_call_and_a_wait_that_raise_are_marked_and_the_exception_is_the_same(flight):
    error = ExpectedError()

    def fail(*_):
        raise error

    group, _ = _recorded_group(call=fail)
    with pytest.raises(ExpectedError) as caught:
        group.method("tensor", "options")
    assert caught.value is error
    group, recorder = _recorded_group()
    work = group.method("tensor", "options")
    _Work.wait = recorder.waiting(fail)
    with pytest.raises(ExpectedError) as caught:
        work.wait()
    assert caught.value is error
    found = read(flight.ring.path)
    assert found.open == []
    assert [one.what for one in found.records] == [layout.FAILED, layout.DONE, layout.FAILED]


def _launched_by_cpp(recorder, group, operation="all_reduce"):
    """As the kernels do; returns the number."""
    records = recorder.flight_records
    handle = records.launch_recorder(operation)(group)
    group.number += 1
    records.end(handle, False)
    return [one.sequence for one in read(recorder_module.flight.ring.path).records if one.is_numbered_by_torch][-1]


def test_collectives_of_python_are_counted_by_group_and_those_of_cpp_have_the_number_of_torch(flight):
    group, recorder = _recorded_group()
    group.number = 5
    group.method("tensor", "options")
    assert _launched_by_cpp(recorder, group) == 7
    group.method("tensor", "options")
    python = [one for one in read(flight.ring.path).records if not one.is_numbered_by_torch]
    assert [one.sequence for one in python] == [1, 2]


@pytest.mark.parametrize(("operation", "adds", "number"), [("send", 1, None), ("barrier", 6, 1)])
def test_what_not_every_rank_counts_is_taken_off_the_number(flight, operation, adds, number):
    group, recorder = _recorded_group(operation, adds=adds)
    group.method("tensor", "options")
    assert [one.sequence for one in read(flight.ring.path).records] == [number]
    assert _launched_by_cpp(recorder, group) == (number or 0) + 1


def test_numbers_of_torch_are_not_used_after_messages_that_moved_them_by_different_amounts(flight):
    """Another thread has issued a collective meanwhile: which of them it was is not known."""
    moves = iter((1, 2))

    def send(group, *_):
        group.number += next(moves)

    group, recorder = _recorded_group("send", call=send)
    group.method("tensor", "options")
    assert _launched_by_cpp(recorder, group) == 1

    group.method("tensor", "options")
    assert _launched_by_cpp(recorder, group) == 0


def test_a_collective_of_cpp_that_begins_during_a_message_has_no_number(flight):
    numbers = []

    def send(group, *_):
        group.number += 1
        numbers.append(_launched_by_cpp(recorder, group))

    group, recorder = _recorded_group("send", call=send)
    group.method("tensor", "options")
    assert numbers == [0]


def test_numbers_go_on_while_there_is_no_ring_and_begin_anew_with_a_new_group(flight):
    group, _ = _recorded_group()
    flight.disarm()
    group.method("tensor", "options")
    flight.arm()
    group.method("tensor", "options")
    assert [one.sequence for one in read(flight.ring.path).records] == [2]
    other, _ = _recorded_group()
    other.method("tensor", "options")
    assert [one.sequence for one in read(flight.ring.path).records] == [2, 1]


def test_the_launches_of_a_group_that_raised_are_counted(flight):
    def fail(*_):
        raise ExpectedError

    group, _ = _recorded_group(call=fail)
    for _ in range(2):
        with pytest.raises(ExpectedError):
            group.method("tensor", "options")
    assert read(flight.ring.path).failed_launches == {"0\tpg\t0-1": 2}
    group, _ = _recorded_group("send", call=fail)
    with pytest.raises(ExpectedError):
        group.method("tensor", "options")
    assert read(flight.ring.path).failed_launches == {"0\tpg\t0-1": 2}


def test_where_torch_has_no_numbers_those_of_python_are_counted_all_the_same(flight):
    group, recorder = _recorded_group()

    def refuse(_):
        raise RuntimeError

    type(group)._get_sequence_number_for_group = refuse
    for _ in range(2):
        group.method("tensor", "options")
    assert [one.sequence for one in read(flight.ring.path).records] == [1, 2]
    assert _launched_by_cpp(recorder, group) == 0


def test_a_group_that_has_gone_is_forgotten(flight):
    group, recorder = _recorded_group()
    group.method("tensor", "options")
    assert recorder.flight_records._groups
    del group
    gc.collect()
    assert recorder.flight_records._groups == {}
    assert not any(recorder.flight_records._caches)


def test_collectives_go_on_with_a_new_ring(flight):
    group, _ = _recorded_group()
    work = group.method("tensor", "options")
    flight.disarm()
    group.method("tensor", "options")
    flight.arm()
    # A wait for what the old ring has is not recorded in the new one.
    work.wait()
    group.method("tensor", "options")
    assert [one.sequence for one in read(flight.ring.path).records] == [3]


def test_without_a_ring_collectives_are_counted_as_before(rings):
    group, recorder = _recorded_group()
    group.method("tensor", "options").wait()
    assert recorder.totals().calls == 1
    assert list(rings.iterdir()) == []


def test_an_error_of_ours_does_not_reach_the_program(flight, monkeypatch):
    monkeypatch.delenv("OTEL_RL_RAISE_INTERNAL_ERRORS")
    group, _ = _recorded_group()
    work = group.method("tensor", "options")

    def fail(*_):
        raise ExpectedError

    monkeypatch.setattr(flight.ring.places, "writer", (fail,))
    assert work.wait() == "waited"
    assert group.method("tensor", "options").wait() == "waited"
    monkeypatch.undo()
    assert guard.error_counts()["collectives.flight_records"] >= 2
    guard.reset_counts()


def test_a_model_call_is_open_until_it_has_finished(recorded, flight):
    steps.begin(1, _scope)
    call = InferenceCall(_scope, ModelRequest(CHAT, server("127.0.0.1", 8000), {"model": "tiny"}))
    assert _open(flight) == ["1", "chat tiny"]
    call.finish()
    steps.finish()
    assert _over(flight)[0] == ("chat tiny", layout.DONE)


@pytest.mark.parametrize(("error", "is_wait"), [(ExpectedError(), True), (TypeError(), False)])
def test_a_call_that_waits_for_all_ranks_and_fails_is_a_failed_wait_unless_it_did_not_begin(flight, error, is_wait):
    def fail(*_):
        raise error

    recorder = CollectiveRecorder()
    recorder.flight_records = FlightRecords(lambda _: "0\tpg\t0-1", lambda run, *args: run(*args))
    method = recorder.recording("barrier", None, fail, blocks=True)
    with pytest.raises(type(error)):
        type("Group", (_Group,), {"method": method})().method("timeout", "all")
    found = read(flight.ring.path)
    (record,) = found.records
    assert (record.kind == layout.WAIT, record.what, record.sequence) == (is_wait, layout.FAILED, 1)
    assert bool(found.failed_launches) != is_wait


def test_a_launch_says_which_thread_made_it_and_so_does_its_wait(flight):
    group, _ = _recorded_group()
    works = [group.method("tensor", "options")]
    for _ in range(2):
        thread = threading.Thread(target=lambda: works.append(group.method("tensor", "options")))
        thread.start()
        thread.join()
    works[1].wait()
    found = [(one.kind, one.thread) for one in read(flight.ring.path).records]
    assert found[0] == (layout.COLLECTIVE, 0)
    assert found[1] == (layout.COLLECTIVE, 1)
    assert found[-1] == (layout.WAIT, 1)


def test_threads_beyond_the_last_number_share_it_and_only_some_are_kept():
    codes = ThreadCodes()
    numbers = [int(codes.of(-thread)) >> layout.THREAD_SHIFT for thread in range(1, 100)]
    assert numbers == [1, 2, *[layout.LAST_THREAD] * 97]
    assert len(codes.known) <= 64
