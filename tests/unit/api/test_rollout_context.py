"""A rollout lies in the program's context and goes on in what is started inside it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import multiprocessing
import os
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import wrapt
from opentelemetry import baggage, trace
from opentelemetry.context import attach, create_key, detach, get_value, set_value
from opentelemetry.instrumentation.utils import is_instrumentation_enabled, suppress_instrumentation

import otel_rl
from otel_rl.api import continuation
from otel_rl.process import process_identity

BOOTSTRAP = Path(otel_rl.__file__).parent / "distro" / "bootstrap"


def _trace_id():
    return trace.get_current_span().get_span_context().trace_id


@pytest.fixture(autouse=True)
def installed(recorded):
    yield
    continuation.restore()


def test_the_programs_baggage_values_and_suppression_hold_inside(recorded):
    key = create_key("program")
    token = attach(set_value(key, "value", baggage.set_baggage("tenant", "acme")))
    with trace.get_tracer("program").start_as_current_span("outer") as outer, suppress_instrumentation():
        with otel_rl.rollout(sample_id=1):
            assert baggage.get_baggage("tenant") == "acme"
            assert baggage.get_baggage("rl.run.id") == process_identity.current().id
            assert get_value(key) == "value"
            assert not is_instrumentation_enabled()
            assert _trace_id() != outer.get_span_context().trace_id
        assert trace.get_current_span() is outer
    detach(token)
    assert recorded.span("rl.rollout").parent is None


def test_every_span_of_a_rollout_says_which_attempt_at_its_sample_it_is(recorded):
    with otel_rl.rollout("outer", attempt=2):
        with otel_rl.tool("search"):
            pass
        with otel_rl.rollout("inner"):
            assert baggage.get_baggage("rl.rollout.attempt") is None
    assert recorded.span("execute_tool search").attributes["rl.rollout.attempt"] == 2
    attempts = {span.attributes["rl.rollout.id"]: span.attributes.get("rl.rollout.attempt") for span in recorded.spans}
    assert attempts == {"outer": 2, "inner": None}


def test_a_rollout_inside_another_has_ids_of_its_own(recorded):
    with otel_rl.rollout("outer", sample_id=1, group_id=2, keep=True), otel_rl.rollout("inner"):
        assert baggage.get_baggage("rl.rollout.id") == "inner"
        assert baggage.get_baggage("rl.sample.id") is None
        assert baggage.get_baggage("rl.group.id") is None
        assert baggage.get_baggage("rl.sampling.priority") is None


def test_threads_and_pool_calls_inside_continue_it_and_others_do_not(recorded):
    found = {}
    with ThreadPoolExecutor(1) as pool:
        with otel_rl.rollout():
            mine = _trace_id()
            thread = threading.Thread(target=lambda: found.update(thread=_trace_id()))
            thread.start()
            thread.join()
            found["pool"] = pool.submit(_trace_id).result()
        with otel_rl.rollout():
            assert pool.submit(_trace_id).result() == _trace_id() != mine
        assert pool.submit(_trace_id).result() == 0
        thread = threading.Thread(target=lambda: found.update(later=_trace_id()))
        thread.start()
        thread.join()
    assert found == {"thread": mine, "pool": mine, "later": 0}


def test_tasks_threads_of_asyncio_and_other_loops_continue_it(recorded):
    async def ask():
        await asyncio.sleep(0)
        return _trace_id()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def main():
        with otel_rl.rollout():
            mine = _trace_id()
            other = asyncio.run_coroutine_threadsafe(ask(), loop)
            assert await asyncio.gather(ask(), asyncio.create_task(ask())) == [mine, mine]
            assert await asyncio.to_thread(_trace_id) == mine
            assert await asyncio.get_running_loop().run_in_executor(None, _trace_id) == mine
            assert await asyncio.wrap_future(other) == mine
            assert await asyncio.to_thread(lambda: asyncio.run(ask())) == mine

    asyncio.run(main())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def _tell(connection):
    connection.send((_trace_id(), baggage.get_baggage("rl.rollout.id")))
    connection.close()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_of_multiprocessing_gets_the_rollout_with_its_process_object(recorded, method, monkeypatch):
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    with otel_rl.rollout("r-7"):
        process = context.Process(target=_tell_with_telemetry, args=(there,))
        process.start()
        assert not hasattr(process, "_otel_rl_context")
        there.close()
        expected = (_trace_id(), "r-7") if method == "fork" else (0, None)
    assert here.recv() == expected
    process.join()
    assert process.exitcode == 0


def _tell_with_telemetry(connection):
    _tell(connection)


def test_a_spawned_process_with_telemetry_continues_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        """
import multiprocessing
import otel_rl
from opentelemetry import trace
def tell():
    return trace.get_current_span().get_span_context().trace_id
def child(pipe):
    with otel_rl.tool("in_child"):
        pipe.send(tell())
if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        here, there = context.Pipe()
        with otel_rl.rollout():
            process = context.Process(target=child, args=(there,))
            process.start()
            print(here.recv() == tell())
        process.join()
"""
    )
    assert _instrumented(program, tmp_path) == "True\nTrue\n"


def test_a_subprocess_that_records_continues_it_and_others_see_nothing(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        """
import os, subprocess, sys
import otel_rl
from opentelemetry import trace
def tell():
    return trace.get_current_span().get_span_context().trace_id
CHILD = "from opentelemetry import trace; print(trace.get_current_span().get_span_context().trace_id)"
def run(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, check=True, **options).stdout
with otel_rl.rollout():
    print(int(run("-c", CHILD)) == tell())
    print(int(run("-c", CHILD, env=dict(os.environ))) == tell())
    print(run("-c", "import os; print(os.environ.get('TRACEPARENT'))", env={}).strip())
    print(run("-c", "import os; print(os.environ['TRACEPARENT'])", env={**os.environ, "TRACEPARENT": "mine"}).strip())
print(int(run("-c", CHILD)), "TRACEPARENT" in os.environ)
"""
    )
    assert _instrumented(program, tmp_path) == "True\nTrue\nNone\nmine\n0 False\n"


def _instrumented(program, folder):
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
    done = subprocess.run(
        [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, program],
        cwd=folder,
        env={**environ, "OTEL_RL_CHILDREN": "all", "OTEL_RL_QUIET": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tracebacks_signatures_and_pickles_of_the_standard_library_stay(recorded):
    def fail():
        raise KeyError("x")

    def frames():
        with ThreadPoolExecutor(1) as pool:
            error = pool.submit(fail).exception()
        seen = []
        previous, threading.excepthook = threading.excepthook, seen.append
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        threading.excepthook = previous
        return [
            [frame.name for frame in traceback.extract_tb(found)]
            for found in (error.__traceback__, seen[0].exc_traceback)
        ]

    plain = frames(), inspect.signature(subprocess.Popen), inspect.signature(threading.Thread.start)
    with otel_rl.rollout():
        inside = frames(), inspect.signature(subprocess.Popen), inspect.signature(threading.Thread.start)
    assert inside == plain


def test_the_wrappers_go_where_ours_are_still_in_place(recorded):
    original = threading.Thread.start
    with otel_rl.rollout():
        ours = threading.Thread.start
    assert ours is not original
    continuation.restore()
    assert threading.Thread.start is original
    with otel_rl.rollout():
        pass

    def later(self):
        return original(self)

    threading.Thread.start = later
    continuation.restore()
    assert threading.Thread.start is later
    threading.Thread.start = original


def test_a_thread_starts_where_the_official_instrumentor_of_threads_came_before_the_rollout(recorded):
    plain = threading.Thread.start

    # As opentelemetry-instrumentation-threading does it, which Strands puts in place.
    def wrapper(start, thread, args, given):
        thread.marked = True
        return start(*args, **given)

    wrapt.wrap_function_wrapper(threading.Thread, "start", wrapper)
    found = []
    try:
        with otel_rl.rollout():
            thread = threading.Thread(target=lambda: found.append(_trace_id()))
            thread.start()
            thread.join()
            assert found == [_trace_id()]
    finally:
        continuation.restore()
        threading.Thread.start = plain


def test_a_subprocess_continues_it_through_the_wrapper_of_somebody_else_and_with_names_in_bytes(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        """
import functools, os, subprocess, sys
original = subprocess.Popen.__init__
@functools.wraps(original)
def patched(self, *args, **kwargs):
    return original(self, *args, **kwargs)
subprocess.Popen.__init__ = patched
import otel_rl
SHOW = [sys.executable, "-S", "-c", "import os; print('rl.rollout.id=R' in os.environ.get('BAGGAGE', ''))"]
with otel_rl.rollout("R"):
    print(subprocess.check_output(SHOW, text=True).strip())
    print(subprocess.check_output(SHOW, text=True, env=os.environb).strip())
    try:
        subprocess.Popen(SHOW, env={"A": 3})
    except TypeError as error:
        print(error)
"""
    )
    assert _instrumented(program, tmp_path) == "True\nTrue\nexpected str, bytes or os.PathLike object, not int\n"


def test_a_thread_that_could_not_start_does_not_carry_the_rollout_to_a_later_start(recorded, monkeypatch):
    seen = []
    thread = threading.Thread(target=lambda: seen.append(_trace_id()))

    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        for name in ("_start_new_thread", "_start_joinable_thread"):
            full.setattr(threading, name, refuse, raising=False)
        with otel_rl.rollout(), contextlib.suppress(RuntimeError):
            thread.start()
    thread.start()
    thread.join()
    assert seen == [0]
