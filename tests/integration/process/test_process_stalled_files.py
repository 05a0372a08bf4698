"""A file system that stops answering stops no thread of the program, nor its end.

How long the end waits for it: tests/unit/process/test_deadlines_of_the_end.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import stalled_files

if TYPE_CHECKING:
    from pathlib import Path

    from process_support import Programs

CALLS = ("mkdir", "open", "write", "rename", "close")
#: Records, waits until an I/O thread is in a stalled call, and then does what a trainer does.
PROGRAM = """
import os, sys, threading, time
import otel_rl
from otel_rl.process import process_identity
from opentelemetry import metrics, trace

def record(name):
    with otel_rl.tool(name):
        metrics.get_meter("program").create_counter("made").add(1)
    otel_rl.event("program.event")

def said(what):
    print(what, os.path.exists(os.environ["STALL_RELEASE"]), flush=True)

record("first")
if "STALL_LATER" in os.environ:
    # The files exist when the file system stops answering.
    assert otel_rl.flush(60)
    os.environ["STALL_CALLS"] = os.environ["STALL_LATER"]
    record("second")
flushed = threading.Thread(target=otel_rl.flush, args=(60,), daemon=True)
flushed.start()
while not os.path.exists(os.environ["STALL_REACHED"]): time.sleep(0.001)
for number in range(200): record(str(number % 10))
said("recorded")
process_identity.update(system="trl", algorithm="grpo")
said("updated")
assert otel_rl.flush(0.1) is False
said("flushed")
trace.get_tracer_provider().force_flush(100)
said("force_flushed")
child = os.fork()
if not child:
    record("child")
    os._exit(0)
os.waitpid(child, 0)
said("forked")
"""
#: Ends, and says when our part of the end is over.
END = """
from otel_rl.ending import exit as process_exit
def deliver_and_say(deliver=process_exit.deliver):
    deliver()
    said("ended")
process_exit.deliver = deliver_and_say
sys.exit(3)
"""
STEPS = ("recorded", "updated", "flushed", "force_flushed", "forked", "ended")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preloaded library; built once."""
    if stalled_files.compiler() is None:
        pytest.skip("needs a C compiler")
    return stalled_files.build(tmp_path_factory.mktemp("stall"))


@pytest.fixture
def stall(library: Path, tmp_path: Path) -> stalled_files.Stall:
    """Stalls below the data directory of ``programs``."""
    return stalled_files.Stall(library, tmp_path / "otel-rl", tmp_path / "reached", tmp_path / "release")


@pytest.mark.parametrize("call", CALLS)
def test_every_host_call_returns_before_the_stalled_one_and_the_exit_is_bounded(
    programs: Programs, stall: stalled_files.Stall, call: str
) -> None:
    done = programs.instrumented(PROGRAM + END, OTEL_RL_EXIT_TIMEOUT="1", **stall.environ(call))

    assert done.out.splitlines() == [f"{step} False" for step in STEPS]
    assert done.code == 3
    # What the program prints is its own; of ours there is one line, and it names the directory.
    (line,) = done.err.splitlines()
    assert "could not be delivered to" in line
    assert "no answer in time" in line
    assert str(stall.below) in line


@pytest.mark.parametrize("call", ["write", "open"])
def test_file_system_that_stops_answering_later_stalls_no_host_call(
    programs: Programs, stall: stalled_files.Stall, call: str
) -> None:
    # The identity changes at the same time, and with it the manifest.
    text = PROGRAM.replace("flushed =", "process_identity.update(algorithm='ppo')\nflushed =")
    done = programs.instrumented(text + END, OTEL_RL_EXIT_TIMEOUT="1", STALL_LATER=call, **stall.environ("none"))

    assert done.out.splitlines() == [f"{step} False" for step in STEPS]
    assert done.code == 3


def test_an_import_that_shows_the_job_goes_on_where_the_file_system_does_not_answer(
    programs: Programs, stall: stalled_files.Stall
) -> None:
    text = """
import os, openai
print("imported", os.path.exists(os.environ["STALL_REACHED"]), os.path.exists(os.environ["STALL_RELEASE"]))
"""
    done = programs.instrumented(text, OTEL_RL_QUIET="1", OTEL_RL_EXIT_TIMEOUT="1", **stall.environ("mkdir"))

    assert (done.code, done.out, done.err) == (0, "imported True False\n", "")


def test_released_file_system_gets_all_that_was_recorded_meanwhile(
    programs: Programs, stall: stalled_files.Stall
) -> None:
    text = PROGRAM + "open(os.environ['STALL_RELEASE'], 'w').close()\nassert otel_rl.flush(60)\n" + END
    done = programs.instrumented(text, OTEL_RL_QUIET="1", **stall.environ("write"))

    assert (done.code, done.err) == (3, "")
    names = programs.store.span_names()
    assert len(names) == 201
    (manifest,) = programs.store.manifests()
    assert manifest["clean_exit"] is True


def test_forked_child_writes_for_itself_while_its_parent_is_stalled(
    programs: Programs, stall: stalled_files.Stall
) -> None:
    text = PROGRAM.replace("os._exit(0)", "sys.exit(5)").replace(
        "os.waitpid(child, 0)", "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)"
    )
    done = programs.instrumented(text + END, OTEL_RL_EXIT_TIMEOUT="0.5", **stall.environ("close"))

    # The parent's descriptors are closed by the child's own I/O thread, which the file system stalls too.
    assert done.out.splitlines()[-3:] == ["5", "forked False", "ended False"]
    assert done.code == 3


def test_signal_handler_may_record_and_flush_while_the_thread_flushes(
    programs: Programs, stall: stalled_files.Stall
) -> None:
    done = programs.instrumented(
        """
import faulthandler, os, signal, threading, time, otel_rl
faulthandler.dump_traceback_later(100, exit=True)
calls = []
def handler(*_):
    with otel_rl.tool("in-handler"): pass
    calls.append(otel_rl.flush(0.02))
    if len(calls) < 20: signal.setitimer(signal.ITIMER_REAL, 0.005)
signal.signal(signal.SIGALRM, handler)
with otel_rl.tool("first"): pass
threading.Thread(target=otel_rl.flush, args=(60,), daemon=True).start()
while not os.path.exists(os.environ["STALL_REACHED"]): time.sleep(0.001)
signal.setitimer(signal.ITIMER_REAL, 0.005)
while len(calls) < 20:
    with otel_rl.tool("work"): pass
    otel_rl.flush(0.01)
print(os.path.exists(os.environ["STALL_RELEASE"]), set(calls))
""",
        OTEL_RL_EXIT_TIMEOUT="0.2",
        **stall.environ("write"),
    )

    assert (done.code, done.out) == (0, "False {False}\n")
