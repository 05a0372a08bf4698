"""Programs that record from signal handlers, finalisers, weakref callbacks and fork handlers do not deadlock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from process_support import Programs

#: Ends the process with the stacks of all threads where it takes longer than anything here may.
WATCH = """
import faulthandler, os, signal, sys, threading, time
faulthandler.enable()
faulthandler.dump_traceback_later(250, exit=True)
import otel_rl

def record(name):
    with otel_rl.tool(name):
        pass
    otel_rl.reward("r", 1.0)
    otel_rl.metric("k", 1.0)
    otel_rl.event("e", {"a": 1})
"""
SIGNALS = (
    WATCH
    + """
signals = 0
def handler(*_):
    global signals
    signals += 1
    record("on_signal")
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0013)
while signals < 1500:
    with otel_rl.rollout():
        record("main")
signal.setitimer(signal.ITIMER_REAL, 0)
with otel_rl.tool("last"):
    pass
print("survived")
"""
)
GARBAGE_AND_FORKS = (
    WATCH
    + """
import contextvars, gc, weakref
def record_apart(name):
    # docs/host-edges.md: before Python 3.12 a finaliser must leave the context as it is.
    contextvars.copy_context().run(record, name)
class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        record_apart("on_del")
class Plain:
    pass
@otel_rl.rollout()
def episode():
    with otel_rl.tool("in_generator"):
        yield 1
def garbage():
    cycle, plain = Cycle(), Plain()
    plain.me = plain
    weakref.finalize(plain, record_apart, "on_finalize")
    plain.generator = episode()
    next(plain.generator)
os.register_at_fork(before=lambda: record("before"), after_in_parent=lambda: record("parent"),
                    after_in_child=lambda: record("child"))
gc.set_threshold(50)
done = threading.Event()
def work():
    while not done.is_set():
        garbage()
        record("in_thread")
def forks():
    for _ in range(12):
        pid = os.fork()
        if pid == 0:
            record("in_child")
            os._exit(0)
        deadline = time.monotonic() + 100
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGABRT)
                print("a child hangs")
                os._exit(3)
            time.sleep(0.002)
    done.set()
# The first record imports much. Beside threads that collect all the time that may take a minute, so it is made before.
garbage()
record("first")
threads = [threading.Thread(target=target) for target in (forks, work)]
for thread in threads:
    thread.start()
while not done.is_set():
    garbage()
    record("main")
for thread in threads:
    thread.join()
print("survived")
"""
)
#: Collects an abandoned generator of ours at each allocation of a change of the context, which changes it too.
GARBAGE_IN_A_CHANGE_OF_THE_CONTEXT = (
    WATCH
    + """
import contextvars, gc
changed, *others = (contextvars.ContextVar(str(number)) for number in range(31))
for other in others:
    other.set(object())
closed = []
@otel_rl.rollout()
def episode():
    try:
        with otel_rl.tool("in_generator"):
            yield 1
    finally:
        closed.append(1)
class Cycle:
    pass
def garbage():
    cycle = Cycle()
    cycle.me, cycle.generator = cycle, episode()
    next(cycle.generator)
garbage()
gc.collect()
gc.disable()
for allocations in [*range(1, 14)] * 10:
    gc.collect()
    garbage()
    gc.set_threshold(gc.get_count()[0] + allocations)
    gc.enable()
    changed.reset(changed.set(object()))
    gc.disable()
assert len(closed) > 100, closed
print("survived")
"""
)


def test_signal_handlers_that_record_never_wait_for_the_code_they_interrupt(programs: Programs) -> None:
    done = programs.instrumented(SIGNALS, OTEL_RL_RAISE_INTERNAL_ERRORS="1", OTEL_METRIC_EXPORT_INTERVAL="200")
    assert (done.code, done.out) == (0, "survived\n"), done.err
    names = programs.store.span_names()
    assert {"execute_tool on_signal", "execute_tool main", "rl.rollout"} <= set(names)


def test_a_decorated_generator_that_is_collected_while_the_context_changes_does_not_crash_the_program(
    programs: Programs,
) -> None:
    # https://github.com/python/cpython/issues/148891
    done = programs.instrumented(GARBAGE_IN_A_CHANGE_OF_THE_CONTEXT)
    assert (done.code, done.out) == (0, "survived\n"), done.err
    assert {"rl.rollout", "execute_tool in_generator"} <= set(programs.store.span_names())


def test_finalisers_weakref_callbacks_and_fork_handlers_that_record_never_deadlock(programs: Programs) -> None:
    done = programs.instrumented(GARBAGE_AND_FORKS, OTEL_METRIC_EXPORT_INTERVAL="200")
    assert (done.code, done.out) == (0, "survived\n"), done.err
    names = set(programs.store.span_names())
    assert {
        "execute_tool on_del",
        "execute_tool on_finalize",
        "execute_tool in_generator",
    } <= names
    # Collections run what they collect in the thread that they fall to: the other one may get no turn.
    assert names & {"execute_tool main", "execute_tool in_thread"}
