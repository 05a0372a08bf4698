"""How the workers of a pool end is a remark where the trainer ended well: what they ran is known to the trainer."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from process_support import INSTRUMENT

if TYPE_CHECKING:
    from process_support import Programs

WORK = """
import multiprocessing, os, signal, sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
import otel_rl

FORK = multiprocessing.get_context("fork")
def work(how=None):
    with otel_rl.tool("t"):
        pass
    otel_rl.flush(60)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        os._exit(3)
"""
#: Ways to begin a process in a thread of an executor: at its end CPython gives it status 1, whatever it did
#: (https://github.com/python/cpython/issues/88110).
IN_THREADS = {
    "executor": """
pool = ProcessPoolExecutor(1, mp_context=FORK)
with ThreadPoolExecutor(1) as threads:
    threads.submit(lambda: pool.submit(work).result()).result()
pool.shutdown()
""",
    "pool": """
with ThreadPoolExecutor(1) as threads:
    pool = threads.submit(FORK.Pool, 1).result()
pool.apply(work)
pool.close()
pool.join()
""",
    "process": """
def begin():
    child = FORK.Process(target=work)
    child.start()
    child.join()
with ThreadPoolExecutor(1) as threads:
    threads.submit(begin).result()
""",
}
BROKEN = """
for how in ("kill", "exit"):
    try:
        with ProcessPoolExecutor(1, mp_context=FORK) as pool:
            pool.submit(work, how).result()
    except BrokenProcessPool:
        print("broken")
"""
#: A call that its pool never answers; the end of its worker has been written when another one runs for it.
LOST = """
import time
pool = FORK.Pool(1)
with otel_rl.step(1):
    first = pool._pool[0].pid
    lost = pool.apply_async(work, ("kill",))
    while first in [one.pid for one in pool._pool] or not pool._pool:
        time.sleep(0.02)
"""
#: What the program does afterwards, and what is said of the worker.
AFTERWARDS = {
    "no step": ("otel_rl.flush(60); print(flush=True); lost.get()", "warning", "; a call of it may never be answered."),
    "a step": (
        "with otel_rl.step(2): otel_rl.flush(60); print(flush=True); lost.get()",
        "notice",
        "; that process went on.",
    ),
}


def run_row(programs: Programs) -> dict[str, Any]:
    """The only run, as ``otel-rl runs`` lists it."""
    done = programs.otel_rl("runs", programs.store.root, "--json")
    return dict(json.loads(done.out))


def findings(programs: Programs) -> list[dict[str, Any]]:
    """What the report finds."""
    done = programs.otel_rl("report", programs.store.root, "--json")
    return list(json.loads(done.out)["findings"])


@pytest.mark.parametrize("way", IN_THREADS)
def test_a_status_of_1_from_a_thread_of_an_executor_is_no_failure(programs: Programs, way: str) -> None:
    assert programs.instrumented(WORK + IN_THREADS[way]).code == 0
    assert run_row(programs)["state"] == "in order"
    assert findings(programs) == []


def test_workers_that_the_trainer_survived_are_a_notice_each(programs: Programs) -> None:
    done = programs.instrumented(WORK + BROKEN)
    assert (done.code, done.out.split()) == (0, ["broken", "broken"])
    assert run_row(programs)["state"] == "in order"
    ends = [finding for finding in findings(programs) if finding["code"] == "ended"]
    assert {finding["severity"] for finding in ends} == {"notice"}
    texts = sorted(finding["text"] for finding in ends)
    assert ["exited with status 3" in text for text in texts] == ["killed by SIGKILL" not in text for text in texts]
    assert [text.endswith("; that process went on.") for text in texts] == [True, True]


def test_a_worker_that_was_killed_explains_a_trainer_that_failed_of_it(programs: Programs) -> None:
    failing = "\nwith ProcessPoolExecutor(1, mp_context=FORK) as pool:\n    pool.submit(work, 'kill').result()\n"
    assert programs.instrumented(WORK + failing).code == 1
    row = run_row(programs)
    assert row["state"] == "failed"
    assert "was killed by SIGKILL (reported by the process of its pool" in row["failure"]
    assert findings(programs)[0]["severity"] == "critical"


@pytest.mark.parametrize("after", AFTERWARDS)
def test_a_killed_worker_of_a_multiprocessing_pool_is_a_warning_until_its_trainer_begins_a_step(
    programs: Programs, after: str
) -> None:
    line, severity, said = AFTERWARDS[after]
    trainer = subprocess.Popen(
        [INSTRUMENT, sys.executable, programs.write("train.py", f"{WORK}{LOST}{line}\n")],
        cwd=programs.directory, env=programs.environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert trainer.stdout is not None
    trainer.stdout.readline()
    try:
        (end,) = (one for one in findings(programs) if "killed by SIGKILL" in one["text"] and one["code"] == "ended")
    finally:
        trainer.terminate()
        trainer.communicate()
    assert (end["severity"], end["text"].endswith(said)) == (severity, True), end["text"]


def test_a_killed_worker_of_a_multiprocessing_pool_is_a_notice_where_its_trainer_ended_in_order(
    programs: Programs,
) -> None:
    assert programs.instrumented(f"{WORK}{LOST}pool.terminate()\n").code == 0
    (end,) = (one for one in findings(programs) if one["code"] == "ended")
    assert (end["severity"], end["text"].endswith("; that process went on.")) == ("notice", True)


def test_workers_that_their_pool_terminates_before_they_deliver_are_a_notice_with_what_to_do(
    programs: Programs,
) -> None:
    text = """
import multiprocessing, signal
def begin():
    # As programs do that start pools themselves: nothing of ours sees SIGTERM.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
def work(_):
    import otel_rl
    with otel_rl.tool("t"):
        pass
    otel_rl.flush(60)
with multiprocessing.get_context("fork").Pool(2, begin) as pool:
    pool.map(work, range(8))
"""
    assert programs.instrumented(text).code == 0
    assert run_row(programs)["state"] == "in order"
    (end,) = (one for one in findings(programs) if one["code"] == "ended")
    assert (end["severity"], "which called terminate()" in end["text"]) == ("notice", True), end["text"]
    assert "pool.join()" in end["look_at"][0]


def test_workers_that_their_pool_terminates_are_no_finding_if_they_delivered(programs: Programs) -> None:
    block = """
from otel_rl.ending import termination
termination.LIMIT = 100
with FORK.Pool(2) as pool:
    pool.map(work, [None] * 8)
"""
    assert programs.instrumented(WORK + block).code == 0
    assert run_row(programs)["state"] == "in order"
    assert findings(programs) == []
