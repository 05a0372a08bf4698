"""What counts as our CPU time: our code on the program's thread without what it wraps, and our threads."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import own_cpu
import pytest

from otel_rl.core.import_hooks import ImportHooks
from otel_rl.instrumentors.observing import Hooks, Switch, wrap
from otel_rl.instrumentors.patching import Patches
from otel_rl.instrumentors.torch_distributed import dispatcher
from otel_rl.semconv import spans
from otel_rl.telemetry import Scope
from otel_rl.training.phases import Phase, PhaseHandle
from otel_rl.training.trainer_loop import TrainerLoop

MILLISECOND = 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch):
    """A clock that only moves where the test says so."""

    class Clock:
        now = 0

        def work(self, nanoseconds: int) -> None:
            self.now += nanoseconds

    moving = Clock()
    monkeypatch.setattr(own_cpu, "_now", lambda: moving.now)
    return moving


def wrapping(clock, before: int, after: int):
    """A factory of replacements as instrumentors have them."""

    def factory(original):
        def replacement(*args):
            clock.work(before)
            result = original(*args)
            clock.work(after)
            return result

        return replacement

    return factory


def test_only_what_the_replacement_does_itself_is_counted(clock):
    host = own_cpu.HostThread()
    method = host.timed(wrapping(clock, 3, 4))(lambda: clock.work(1000))
    method()
    assert (host.nanoseconds, host.entries, host.stretches) == (7, 1, 2)


def test_a_replacement_below_an_original_is_counted_on_its_own(clock):
    host = own_cpu.HostThread()
    inner = host.timed(wrapping(clock, 10, 20))(lambda: clock.work(1000))
    outer = host.timed(wrapping(clock, 1, 2))(inner)
    outer()
    assert (host.nanoseconds, host.entries) == (33, 2)


def test_an_exception_of_the_original_ends_what_is_counted(clock):
    host = own_cpu.HostThread()

    def fail() -> None:
        clock.work(1000)
        raise KeyError

    method = host.timed(wrapping(clock, 3, 4))(fail)
    with pytest.raises(KeyError):
        method()
    clock.work(1000)
    assert host.nanoseconds == 3
    assert not host.is_inside


def test_an_entry_by_another_thread_is_told_and_not_mixed_in(clock):
    host = own_cpu.HostThread()
    method = host.timed(wrapping(clock, 3, 4))(lambda: None)
    thread = threading.Thread(target=method)
    thread.start()
    thread.join()
    assert (host.nanoseconds, host.entries, host.entries_elsewhere) == (0, 0, 1)


def test_an_empty_stretch_before_each_counted_one_tells_what_the_clock_costs():
    own = own_cpu.OwnCpu()
    method = own.host.timed(lambda original: original)(lambda: None)
    for _ in range(10):
        method()
    reading = own.read()
    assert reading.stretches == 20
    assert reading.empty_stretches == 40
    assert reading.empty_ns > 0


def test_what_runs_before_a_stretch_is_not_counted(clock):
    host = own_cpu.HostThread(before=lambda: clock.work(500))
    method = host.timed(wrapping(clock, 3, 4))(lambda: clock.work(1000))
    method()
    assert host.nanoseconds == 7


def test_threads_of_ours_are_those_with_our_prefix():
    done = threading.Event()
    ready = threading.Barrier(3)

    def spin() -> None:
        while time.thread_time_ns() < 5 * MILLISECOND:
            pass
        ready.wait()
        done.wait()

    threads = [threading.Thread(target=spin, name=name) for name in ("otel-rl-files", "program")]
    before = own_cpu.OwnThreads().nanoseconds()
    for thread in threads:
        thread.start()
    ready.wait()
    counted = own_cpu.OwnThreads().nanoseconds() - before
    alone = time.clock_gettime_ns(time.pthread_getcpuclockid(threads[0].ident))
    both = alone + time.clock_gettime_ns(time.pthread_getcpuclockid(threads[1].ident))
    done.set()
    for thread in threads:
        thread.join()
    # Threads that other tests have left may add a little.
    assert 5 * MILLISECOND <= counted < both


def test_the_audit_names_a_call_into_our_code_that_nothing_times():
    from otel_rl.telemetry import drops

    host = own_cpu.HostThread()
    audit = own_cpu.Audit(host)
    timed = host.timed(lambda _: drops.snapshot)(drops.snapshot)
    audit.start()
    timed()
    drops.snapshot()
    audit.stop()
    assert dict(audit.untimed) == {"drops.py:snapshot": 1}


def test_the_audit_names_a_call_below_an_original_that_a_replacement_runs():
    """A replacement is around the whole of a training."""
    from otel_rl.telemetry import drops

    host = own_cpu.HostThread()
    audit = own_cpu.Audit(host)
    hooks = Hooks("test", begin=lambda: None)
    timed = host.timed(lambda original: wrap(original, hooks, Switch()))(drops.snapshot)
    audit.start()
    timed()
    audit.stop()
    assert dict(audit.untimed) == {"drops.py:snapshot": 1}


@pytest.fixture
def installable(monkeypatch):
    """What the benchmark replaces is put back after the test."""
    for owner, name in (
        (Patches, "_replace"),
        (PhaseHandle, "__exit__"),
        (dispatcher, "_computed"),
        (dispatcher, "_redispatch"),
        (dispatcher._CollectiveWait, "end"),
        (ImportHooks, "find_spec"),
        (ImportHooks, "_found_by_others"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr(dispatcher.DispatcherKernels, "_kernel", staticmethod(dispatcher.DispatcherKernels._kernel))


def test_the_end_of_a_phase_in_a_stack_of_contexts_is_timed(installable):
    own = own_cpu.OwnCpu()
    own.install()
    with ExitStack() as stack:
        stack.push(Phase(spans.RL_FORWARD, Scope("test"), loop=TrainerLoop()))
    assert own.host.entries == 1


def test_replacements_of_instrumentors_are_timed_whichever_way_they_are_made(clock, installable):
    class Library:
        def replaced(self):
            clock.work(1000)

        def observed(self):
            clock.work(1000)

    own = own_cpu.OwnCpu()
    own.install()
    patches = Patches()
    assert patches.replace(Library, "replaced", wrapping(clock, 3, 4), required=True)
    assert patches.observe(Library, "observed", before=lambda *_: clock.work(10), required=True)
    Library().replaced()
    Library().observed()
    patches.restore()
    assert (own.replacements, own.host.nanoseconds, own.host.entries) == (2, 17, 2)
