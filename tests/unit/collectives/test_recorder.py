"""The recorder counts on the hot path, bounded in memory, and never changes what the wrapped call does."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import types

import pytest

from otel_rl.collectives import recorder as recorder_module
from otel_rl.collectives.flight_records import ThreadCodes
from otel_rl.collectives.recorder import CollectiveRecorder, SlotKey

MILLISECOND = 1e-3


class Tensor:
    def __init__(self, nbytes):
        self.nbytes = nbytes


class Work:
    """What an asynchronous collective returns."""

    def __init__(self, waits=0.0, error=None):
        self.waits = waits
        self.error = error

    def raw_wait(self, *args, **kwargs):
        time.sleep(self.waits)
        if self.error is not None:
            raise self.error
        return "waited", args, kwargs


class ProcessGroup:
    group_name = "0"

    def __init__(self, description="default_pg", size=2):
        self.group_desc = description
        self._size = size

    def size(self):
        return self._size


def make(recorder, operation="all_reduce", payload=0, call=lambda self, *args, **kwargs: Work()):
    """A process group class with one recorded method, and a work class with a recorded wait."""
    group_class = type("Group", (ProcessGroup,), {"method": recorder.recording(operation, payload, call)})
    Work.wait = recorder.waiting(Work.raw_wait)
    return group_class()


def test_calls_and_bytes_are_summed_per_operation_group_and_size():
    recorder = CollectiveRecorder()
    group = make(recorder)
    for _ in range(3):
        group.method([Tensor(100)], "options")
    group.method([Tensor(1), Tensor(2)], "options")
    group.method([[Tensor(10), Tensor(20)]], "options")

    [(key, (calls, size, host_time, wait_time))] = recorder.values()

    assert key == SlotKey("all_reduce", "default_pg", 2)
    assert (calls, size, wait_time) == (5, 333, 0)
    assert host_time > 0


def test_the_second_argument_is_measured_where_it_holds_the_message():
    recorder = CollectiveRecorder()
    group = make(recorder, "reduce_scatter", payload=1)

    group.method(Tensor(1), Tensor(8), "options")

    assert recorder.totals().bytes == 8


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1,), {}), ((1, 2), {}), ((1, 2, 3), {}), ((1,), {"opts": 2}), ((1, 2), {"opts": 3}), ((), {"a": 1})],
)
def test_arguments_and_result_pass_unchanged(args, kwargs):
    recorder = CollectiveRecorder()
    seen = []
    result = object()

    def call(self, *args, **kwargs):
        seen.append((args, kwargs))
        return result

    group = make(recorder, "barrier", payload=None, call=call)

    assert group.method(*args, **kwargs) is result
    assert seen == [(args, kwargs)]


def test_an_exception_of_the_call_is_the_same_object_and_not_counted():
    recorder = CollectiveRecorder()
    error = RuntimeError("connection reset")

    def call(self, *args, **kwargs):
        raise error

    group = make(recorder, call=call)
    with pytest.raises(RuntimeError) as caught:
        group.method([Tensor(1)], None)

    assert caught.value is error
    assert recorder.totals().calls == 0


def test_an_unknown_payload_never_reaches_the_program(monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    recorder = CollectiveRecorder()
    group = make(recorder)

    assert isinstance(group.method("not a tensor", None), Work)


def test_waiting_is_attributed_to_the_operation_that_was_launched():
    recorder = CollectiveRecorder()
    reduce = make(recorder, "all_reduce", call=lambda self, *args, **kwargs: Work(waits=200 * MILLISECOND))
    gather = make(recorder, "all_gather", call=lambda self, *args, **kwargs: Work())
    pending = reduce.method([Tensor(1)], None)
    gather.method([Tensor(1)], None).wait()

    assert pending.wait("timeout") == ("waited", ("timeout",), {})
    assert pending.wait() == ("waited", (), {}), "a second wait works and counts nothing"

    waits = {group.operation: values[recorder_module.WAIT_TIME] for group, values in recorder.values()}
    assert waits["all_reduce"] >= 200e6
    assert waits["all_gather"] < waits["all_reduce"]


def test_the_time_until_a_wait_fails_counts_and_the_error_passes():
    recorder = CollectiveRecorder()
    error = TimeoutError()
    group = make(recorder, call=lambda self, *args, **kwargs: Work(waits=2 * MILLISECOND, error=error))
    work = group.method([Tensor(1)], None)

    with pytest.raises(TimeoutError) as caught:
        work.wait()

    assert caught.value is error
    assert recorder.totals().wait_time >= 2e6


def test_works_that_nobody_waits_for_do_not_pile_up_although_nobody_reads():
    recorder = CollectiveRecorder()
    group = make(recorder)
    kept = []
    for _ in range(recorder_module.MAXIMUM_PENDING * 2 + 1):
        kept.append(group.method([Tensor(1)], None))
        assert len(recorder._pending) <= recorder_module.MAXIMUM_PENDING + recorder_module.RARELY

    assert recorder.totals().calls == len(kept)
    kept[0].wait()
    assert recorder.totals().wait_time == 0
    kept[-1].wait()
    assert recorder.totals().wait_time > 0


def test_the_slowest_are_kept_longest_first_and_only_once(monkeypatch):
    now = [0]
    monkeypatch.setattr(recorder_module, "clock", lambda: now[0])
    recorder = CollectiveRecorder(slowest=2)

    class Late(Work):
        def raw_wait(self):
            now[0] += self.waits

    waits = iter([3, 6, 0, 9, 4])
    group = make(recorder, call=lambda self, *args, **kwargs: Late(waits=next(waits) * MILLISECOND))
    Late.wait = recorder.waiting(Late.raw_wait)
    for size in range(5):
        group.method([Tensor(size)], None).wait()

    slowest = recorder.take_slowest()

    assert [(slow.message_size, slow.duration) for slow in slowest] == [(3, 9_000_000), (1, 6_000_000)]
    assert recorder.take_slowest() == []


@pytest.mark.parametrize(("launch", "wait", "total"), [(2.0, 5.0, 7.0), (5.0, 2.0, 7.0), (0.8, 0.7, 1.5)])
def test_launch_and_wait_of_a_slow_collective_are_one(monkeypatch, launch, wait, total):
    now = [0]
    monkeypatch.setattr(recorder_module, "clock", lambda: now[0])
    recorder = CollectiveRecorder()

    def passes(milliseconds):
        now[0] += milliseconds * 1e-3

    class Late(Work):
        def raw_wait(self):
            passes(wait)

    def launched(self, *args, **kwargs):
        passes(launch)
        return Late()

    group = make(recorder, call=launched)
    Late.wait = recorder.waiting(Late.raw_wait)
    group.method([Tensor(1)], None).wait()

    assert [slow.duration for slow in recorder.take_slowest()] == [pytest.approx(total * 1e6)]


def test_of_too_many_works_only_the_oldest_are_not_waited_for():
    recorder = CollectiveRecorder()
    group = make(recorder)
    too_many = recorder_module.RARELY + 1
    works = [group.method([Tensor(1)], None) for _ in range(recorder_module.MAXIMUM_PENDING + too_many)]
    kept = [id(work) in recorder._pending for work in works]
    assert kept == [False] * too_many + [True] * recorder_module.MAXIMUM_PENDING


def test_none_is_kept_when_none_is_wanted():
    recorder = CollectiveRecorder(slowest=0)
    make(recorder, call=lambda self, *args, **kwargs: Work(waits=2 * MILLISECOND)).method([Tensor(1)], None).wait()

    assert recorder.take_slowest() == []


def test_group_names_beyond_the_budget_share_one_name():
    recorder = CollectiveRecorder()
    kind = type(make(recorder))
    groups = [kind(f"group {number}") for number in range(100)]
    for group in groups:
        group.method([Tensor(1)], None)

    names = {group.name for group, _ in recorder.values()}

    assert len(names) == 32
    assert recorder_module.OTHER_GROUP in names
    assert recorder.totals().calls == 100


def test_an_undescribed_group_goes_by_its_name():
    recorder = CollectiveRecorder()
    kind = type(make(recorder))
    group = kind("undefined")
    group.method([Tensor(1)], None)

    assert recorder.values()[0][0].name == "0"


def test_a_destroyed_group_is_forgotten_and_its_sums_stay():
    recorder = CollectiveRecorder()
    group = make(recorder)
    group.method([Tensor(1)], None)
    del group
    gc.collect()

    assert recorder._groups == {}
    assert all(not slots for slots in recorder._by_method)
    assert recorder.totals().calls == 1


def test_a_forked_child_starts_at_zero_and_goes_on_counting():
    recorder = CollectiveRecorder()
    group = make(recorder)
    group.method([Tensor(5)], None)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        recorder.reset()
        group.method([Tensor(7)], None)
        os.write(writing, repr(recorder.totals()[:2]).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)

    assert os.read(reading, 100) == b"(1, 7)"
    assert recorder.totals()[:2] == (1, 5)
    os.close(reading)


def test_a_forked_child_forgets_in_which_threads_of_its_parent_collectives_are_issued():
    recorder, here = CollectiveRecorder(), threading.get_ident()
    threads = {here, here + 1}
    recorder.mark("all_reduce", threads)
    recorder.reset()

    assert threads == {here}


class Interrupting:
    """A place in the ring whose taking is interrupted, as by Ctrl-C."""

    def __init__(self, error: BaseException) -> None:
        self._error = error
        view: list[float] = [0.0]
        self.writer = self._take, view, view, view, view

    def _take(self) -> int:
        raise self._error

    def begin(self, what: float, moment: float) -> None:
        raise self._error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TimeoutError()], ids=["ctrl-c", "alarm"])
def test_what_a_signal_handler_raises_while_the_ring_is_written_stays_what_it_is(error, monkeypatch):
    class SlotKey:
        group_desc = "interrupted"

        def size(self):
            return 2

    class Records:
        threads = ThreadCodes()

        def watching(self, operation, call):
            return call

        def follow(self, _):
            pass

        def launch_failed(self, *_):
            raise AssertionError

    recorder = CollectiveRecorder()
    recorder.flight_records = Records()
    group = SlotKey()
    slot = [0, 0, 0.0, 0.0, None]
    places = Interrupting(error if isinstance(error, KeyboardInterrupt) else IndexError())
    if isinstance(error, TimeoutError):
        monkeypatch.setattr("otel_rl.collectives.recorder.begin_late", _raising(error))
    monkeypatch.setattr(recorder, "_find_entry", lambda *_: (slot, 0.0, [0.0], places))
    method = recorder.recording("all_reduce", None, lambda *_: object())

    with pytest.raises(type(error)):
        method(group)


class Alarm(Exception):  # noqa: N818 - a name for the tests
    """What a signal handler of the program raises."""


@pytest.fixture
def alarm():
    """A signal handler that raises, and a function that sends the signal to this thread."""

    def handler(*_):
        raise Alarm

    before = signal.signal(signal.SIGUSR1, handler)
    yield lambda: signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


class Places:
    """A ring of one record, as the hot path writes it."""

    def __init__(self):
        self.began, self.what, self.again, self.ended = ([0.0] for _ in range(4))
        self.writer = (lambda: 0), self.began, self.what, self.again, self.ended


#: Where the handler may run in the method: at each call of ours, and in the original.
INSIDE = ["before", "take", "original", "after", "seldom"]


@pytest.mark.parametrize("where", INSIDE)
def test_a_signal_handler_that_raises_inside_a_collective_leaves_nothing_behind(alarm, where, monkeypatch):
    """At worst one call is not counted, and its record in the ring stays open until its place is used again."""
    due = []

    def happens(site):
        if due == [site]:
            due.clear()
            alarm()

    sites = iter(["before", "after", "before", "after"])
    monkeypatch.setattr(recorder_module, "clock", lambda: happens(next(sites)) or time.monotonic())
    monkeypatch.setattr(recorder_module, "RARELY", 0)
    recorder, marked, places = CollectiveRecorder(), set(), Places()
    recorder.mark("all_reduce", marked)
    recorder.flight_records = types.SimpleNamespace(
        watching=lambda _, call: call,
        follow=lambda _: None,
        launch_failed=lambda *_: None,
        threads=ThreadCodes(),
    )
    places.writer = lambda: happens("take") or 0, *places.writer[1:]
    slot = [0, 0, 0.0, 0.0, None]
    monkeypatch.setattr(recorder, "_find_entry", lambda *_: (slot, 0.0, [0.0], places))
    monkeypatch.setattr(recorder, "_seldom", lambda _: happens("seldom"))
    method = recorder.recording("all_reduce", None, lambda *_: happens("original"))
    group = ProcessGroup()

    due.append(where)
    with pytest.raises(Alarm):
        method(group)
    assert marked == set()
    counted, is_open = slot[recorder_module.CALLS], places.ended[0] < places.began[0]
    assert counted == (1 if where == "seldom" else 0)
    assert is_open is (where == "after")

    # The next one goes on as if nothing had been, and uses the place again.
    sites = iter(["before", "after"])
    method(group)
    assert marked == set()
    assert slot[recorder_module.CALLS] == counted + 1
    assert places.ended[0] >= places.began[0]


@pytest.mark.parametrize("where", ["before", "take", "original", "after"])
def test_a_signal_handler_that_raises_inside_a_wait_leaves_nothing_behind(alarm, where, monkeypatch):
    due = [where]

    def happens(site):
        if due == [site]:
            due.clear()
            alarm()

    sites = iter(["before", "after"])
    monkeypatch.setattr(recorder_module, "clock", lambda: happens(next(sites, None)) or time.monotonic())
    recorder, places, slot, work = CollectiveRecorder(), Places(), [0, 0, 0.0, 0.0, None], object()
    places.writer = lambda: happens("take") or 0, *places.writer[1:]
    recorder._pending[id(work)] = slot, 0.0, 0.0, 0, 0.0, places
    wait = recorder.waiting(lambda _: happens("original"))
    with pytest.raises(Alarm):
        wait(work)
    assert recorder._pending == {}
    assert (places.ended[0] < places.began[0]) is (where == "after")
    wait(work)


def _raising(error):
    def function(*_):
        raise error

    return function
