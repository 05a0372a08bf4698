"""SIGTERM: what ended before it is delivered, and the process ends by it as it would without us.

That it has two seconds for it: tests/unit/process/test_deadlines_of_the_end.py.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from loopback_ports import free_ports
from process_support import INSTRUMENT, ONE_SPAN, Programs

LAST_WORK = "import os, signal, time, otel_rl\nwith otel_rl.tool('last'): pass\n"
KILL = "os.kill(os.getpid(), signal.SIGTERM)\n"
#: On a busy machine the last line takes more than the two seconds after which the process ends.
NO_LIMIT = "from otel_rl.ending import termination\ntermination.LIMIT = 100\n"
ATTRIBUTE = "rl.run.end.signal"


def started(programs: Programs, text: str, **environ: str) -> subprocess.Popen[str]:
    """The program under opentelemetry-instrument; it says ``ready`` when it may be stopped."""
    return subprocess.Popen(
        [INSTRUMENT, sys.executable, programs.write("program.py", text)],
        cwd=programs.directory,
        env=programs.environ | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stop(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Send SIGTERM to a program that is ready: status and standard error."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    _, err = process.communicate(timeout=120)
    return process.returncode, err


def wait_for_sleep(process: subprocess.Popen[str]) -> None:
    """Wait until the main thread waits in the kernel."""
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        time.sleep(0.01)


def ends(programs: Programs) -> list[dict[str, object]]:
    return [
        {attribute["key"]: attribute["value"] for attribute in record["attributes"]}
        for record in programs.store.events("rl.run.end")
    ]


def test_what_ended_before_is_delivered(programs: Programs) -> None:
    done = programs.instrumented(LAST_WORK + KILL + "time.sleep(600)\nprint('went on')\n")

    assert (done.code, done.out) == (-signal.SIGTERM, "")
    assert "execute_tool last" in programs.store.span_names()
    assert [end[ATTRIBUTE] for end in ends(programs)] == [{"stringValue": "SIGTERM"}]
    assert done.err.startswith("otel-rl: recorded ")


def test_program_that_has_recorded_nothing_ends_at_once(programs: Programs) -> None:
    done = programs.instrumented("import os, signal\n" + KILL + "print('went on')\n")

    assert (done.code, done.out, done.err) == (-signal.SIGTERM, "", "")


@pytest.mark.parametrize(
    "work",
    [
        "while True: pass",
        "import threading; threading.Event().wait()",
        "import select; select.select([], [], [])",
        "signal.pause()",
        # In C code that gives the interpreter's lock back and restarts what a signal interrupts.
        "import ctypes; ctypes.CDLL(None).sem_wait(ctypes.create_string_buffer(64))",
        # In C code that computes.
        "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)",
    ],
)
def test_main_thread_may_be_anywhere(programs: Programs, work: str) -> None:
    process = started(programs, f"{LAST_WORK}time.sleep(0.5)\nprint('ready', flush=True)\n{work}\n")
    code, _ = stop(process)

    assert code == -signal.SIGTERM
    assert "execute_tool last" in programs.store.span_names()


def test_a_program_that_pauses_does_not_go_on_while_it_is_delivered(programs: Programs) -> None:
    text = LAST_WORK + "print('ready', flush=True)\nsignal.pause()\nprint('went on', flush=True)\nos._exit(3)\n"
    process = started(programs, text)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    wait_for_sleep(process)
    process.terminate()
    out, _ = process.communicate(timeout=120)

    assert (process.returncode, out) == (-signal.SIGTERM, "")
    assert "execute_tool last" in programs.store.span_names()


@pytest.mark.parametrize(
    "pause",
    [
        "signal.pause()",
        # A built-in function does not become a method.
        "type('Waiter', (), {'wait': signal.pause})().wait()",
        "copy.deepcopy({'wait': signal.pause})['wait']()",
    ],
)
def test_another_signal_ends_a_pause_as_without_us(programs: Programs, pause: str) -> None:
    text = (
        LAST_WORK + "import copy, inspect\nsignal.signal(signal.SIGALRM, lambda *_: print('woken'))\n"
        "assert hasattr(signal.pause, '__wrapped__')\n"
        "assert (signal.pause.__name__, str(inspect.signature(signal.pause))) == ('pause', '()')\n"
        # A child of a fork ends by SIGTERM at once: its pause is its own again.
        "child = os.fork()\nif child == 0: os._exit(hasattr(signal.pause, '__wrapped__'))\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        f"signal.setitimer(signal.ITIMER_REAL, 0.05)\nprint({pause})\n"
    )
    done = programs.instrumented(text)

    assert (done.code, done.out) == (0, "woken\nNone\n")


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_collector_that_does_not_answer_does_not_keep_the_process(programs: Programs, protocol: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        process = started(
            programs,
            LAST_WORK + NO_LIMIT + "print('ready', flush=True)\ntime.sleep(600)\n",
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
            OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
        )
        code, err = stop(process)

    assert code == -signal.SIGTERM
    assert "could not be delivered" in err


def test_a_second_signal_does_not_cut_the_delivery_short(programs: Programs) -> None:
    process = started(programs, LAST_WORK + "print('ready', flush=True)\ntime.sleep(60)\n")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for _ in range(3):
        process.terminate()
        time.sleep(0.005)

    assert process.wait(timeout=120) == -signal.SIGTERM
    assert "execute_tool last" in programs.store.span_names()


def test_during_the_last_delivery(programs: Programs) -> None:
    text = (
        LAST_WORK + "from otel_rl.pipeline import last_delivery\n"
        "wait = last_delivery.LastDelivery.wait\n"
        "def wait_long(self):\n    wait(self); print('ready', flush=True); time.sleep(600)\n"
        "last_delivery.LastDelivery.wait = wait_long\n"
    )
    code, _ = stop(started(programs, text))

    assert code == -signal.SIGTERM


# -- programs that have a handler of their own -------------------------------------------------------------------


OWN = {
    "a handler": "signal.signal(signal.SIGTERM, lambda *_: print('mine', flush=True))\n" + KILL + "print('went on')\n",
    "an exit": "import sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n" + KILL + "time.sleep(600)\n",
    "ignored": "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + KILL + "print('went on')\n",
    "the default again": "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n" + KILL + "print('went on')\n",
    "an event loop": """
import asyncio
async def main():
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    os.kill(os.getpid(), signal.SIGTERM)
    await done.wait()
    asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
asyncio.run(main())
print('in order')
""",
    "a library that calls the handler of before": """
previous = signal.getsignal(signal.SIGTERM)
def handle(number, frame):
    if callable(previous) and previous != signal.SIG_DFL: previous(number, frame)
    print('mine', flush=True)
signal.signal(signal.SIGTERM, handle)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(2.5)
print('went on')
""",
    "a library that calls any handler of before": """
previous = signal.signal(signal.SIGTERM, lambda number, frame: callable(previous) and previous(number, frame))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(2.5)
print('went on')
""",
    "sigwait": "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
    + KILL
    + "print(signal.sigwait({signal.SIGTERM}))\n",
    "a descriptor for signals": """
import socket
reading, writing = socket.socketpair(); writing.setblocking(False)
print(signal.set_wakeup_fd(writing.fileno()))
signal.signal(signal.SIGUSR1, lambda *_: None)
os.kill(os.getpid(), signal.SIGUSR1)
print(reading.recv(10))
""",
    "faulthandler": "import faulthandler\nfaulthandler.register(signal.SIGTERM, chain=True)\n"
    + KILL
    + "print('went on')\n",
    "only where there is none": "print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,"
    " signal.getsignal(signal.SIGTERM) in (None, signal.SIG_DFL))\n",
}


@pytest.mark.parametrize("which", OWN)
def test_programs_own_way_with_the_signal_is_the_same(programs: Programs, which: str) -> None:
    text = LAST_WORK + "time.sleep(0.3)\n" + OWN[which]
    without = programs.plain(text)
    done = programs.instrumented(text, OTEL_RL_QUIET="1")

    assert (done.code, done.out) == (without.code, without.out)
    assert "Traceback" not in done.err


def test_handler_is_put_back_by_a_library(programs: Programs) -> None:
    # As uvicorn does after serving, and lightning after fit.
    done = programs.instrumented(
        LAST_WORK + "before = signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "signal.signal(signal.SIGTERM, before)\nsignal.raise_signal(signal.SIGTERM)\nprint('went on')\n"
    )

    assert (done.code, done.out) == (-signal.SIGTERM, "")
    assert "execute_tool last" in programs.store.span_names()


def test_descriptors_that_the_program_closes_are_the_programs_own(programs: Programs) -> None:
    text = LAST_WORK + (
        "time.sleep(1)\nos.closerange(3, 256)\ntime.sleep(0.5)\n"
        "held = [os.open(f'mine{number}', os.O_RDWR | os.O_CREAT) for number in range(40)]\n"
        + KILL
        + "time.sleep(600)\n"
    )
    done = programs.instrumented(text)

    assert done.code == -signal.SIGTERM
    written = b"".join(path.read_bytes() for path in programs.directory.glob("mine*"))
    assert b"Stack" not in written
    assert b"File" not in written


# -- servers, launchers and pools --------------------------------------------------------------------------------


APPLICATION = """
import otel_rl
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown": return
    with otel_rl.tool("served"): pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x"})
"""


def answered(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_uvicorn(programs: Programs, loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    programs.write("app.py", APPLICATION)
    (port,) = free_ports(1)
    command = ["uvicorn", "app:app", "--port", str(port), "--log-level", "error", "--loop", loop]
    process = subprocess.Popen(
        [INSTRUMENT, sys.executable, "-m", *command],
        cwd=programs.directory,
        env=programs.environ,
    )
    url = f"http://127.0.0.1:{port}/"
    deadline = time.monotonic() + 240
    while not answered(url):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for _ in range(9):
        assert answered(url)
    process.terminate()

    assert process.wait(timeout=120) == -signal.SIGTERM
    assert programs.store.span_names().count("execute_tool served") == 10
    assert [end[ATTRIBUTE] for end in ends(programs)] == [{"stringValue": "SIGTERM"}]


def test_workers_of_a_pool_end_as_before(programs: Programs) -> None:
    text = (
        LAST_WORK + "import multiprocessing, sys\n"
        "def work(_):\n"
        "    with otel_rl.tool('in worker'): pass\n"
        "    return signal.getsignal(signal.SIGTERM) == signal.SIG_DFL\n"
        "if __name__ == '__main__':\n"
        "    for _ in range(5):\n"
        "        pool = multiprocessing.get_context('fork').Pool(4)\n"
        "        workers = list(pool._pool)\n"
        "        print(all(pool.map(work, range(8))))\n"
        "        pool.terminate(); pool.join()\n"
        "        print({worker.exitcode for worker in workers} <= {-15, 0})\n"
        "    for _ in range(20):\n"
        "        pool = multiprocessing.get_context('fork').Pool(2); pool.terminate(); pool.join()\n"
        "    print('went on')\n"
    )
    done = programs.instrumented(text, OTEL_RL_QUIET="1")

    assert done.code == 0, done.err
    assert done.out == "True\nTrue\n" * 5 + "went on\n"


def test_spawned_worker_delivers(programs: Programs) -> None:
    text = (
        "import multiprocessing, time, otel_rl\n"
        "def work(queue):\n"
        "    with otel_rl.tool('in worker'): pass\n"
        "    queue.put(1); time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    queue = context.Queue()\n"
        "    worker = context.Process(target=work, args=(queue,)); worker.start(); queue.get()\n"
        "    worker.terminate(); worker.join()\n"
        "    print(worker.exitcode)\n"
    )
    done = programs.instrumented(text, OTEL_RL_QUIET="1")

    assert done.out == "-15\n", done.err
    assert "execute_tool in worker" in programs.store.span_names()


def test_workers_of_a_pool_that_its_block_terminates_deliver(programs: Programs) -> None:
    text = (
        "import multiprocessing, otel_rl\n"
        "def work(_):\n"
        "    with otel_rl.tool('in worker'): pass\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool: pool.map(work, range(8), chunksize=1)\n"
    )
    done = programs.instrumented(NO_LIMIT + text, OTEL_RL_QUIET="1")

    assert done.code == 0, done.err
    assert programs.store.span_names().count("execute_tool in worker") == 8


def test_child_between_fork_and_python_code_does_not_end_its_parent(programs: Programs) -> None:
    text = LAST_WORK + (
        "time.sleep(0.5)\nos.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
        "for _ in range(20):\n"
        "    child = os.fork()\n"
        "    if child == 0: time.sleep(10); os._exit(0)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -15\n"
        "time.sleep(0.5)\nprint('went on')\n"
    )
    done = programs.instrumented(text, OTEL_RL_QUIET="1")

    assert (done.code, done.out) == (0, "went on\n"), done.err


def test_rank_below_torchrun(programs: Programs) -> None:
    text = (
        "import os, sys, time, otel_rl\n"
        "with otel_rl.tool('of rank ' + os.environ['RANK']): pass\n"
        "if os.environ['RANK'] == '0':\n"
        "    open('recorded', 'w').close(); time.sleep(600)\n"
        "while not os.path.exists('recorded'): time.sleep(0.01)\n"
        "sys.exit(9)\n"
    )
    done = programs.torchrun(text, "--nproc-per-node=2")

    assert done.code == 1
    assert {"execute_tool of rank 0", "execute_tool of rank 1"} <= set(programs.store.span_names())
    assert {"stringValue": "SIGTERM"} in [end.get(ATTRIBUTE) for end in ends(programs)]


def test_children_begin_with_the_default(programs: Programs) -> None:
    done = programs.instrumented(
        ONE_SPAN + "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '30']); child.terminate(); print(child.wait())\n"
    )

    assert done.out == "-15\n"
