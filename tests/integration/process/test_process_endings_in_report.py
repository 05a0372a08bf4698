"""What the report says first of how a program ended, on real programs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from process_support import INSTRUMENT, SCRIPTS, Programs

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = """
import otel_rl, sys, time
for number in range(1, {steps}):
    with otel_rl.step(number), otel_rl.phase("train"):
        time.sleep(0.02)
"""
FOREVER = STEPS.format(steps=100_000).replace("time.sleep(0.02)", "number == 3 and print(flush=True); time.sleep(0.02)")
#: A signal after the line comes within step 5.
STUCK = STEPS.format(steps=100_000).replace("time.sleep(0.02)", "number == 5 and (print(flush=True), time.sleep(600))")


def report(programs: Programs, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit status of the command, and its findings."""
    done = programs.otel_rl("report", programs.store.root, "--json", *options)
    return done.code, json.loads(done.out)["findings"]


@contextmanager
def started(programs: Programs, text: str) -> Iterator[subprocess.Popen[str]]:
    """The program, from its line on."""
    path = programs.write("train.py", text)
    process = subprocess.Popen(
        [INSTRUMENT, sys.executable, path],
        cwd=programs.directory, env=programs.environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_crash_says_the_message_the_line_and_the_step(programs: Programs) -> None:
    programs.instrumented(
        "import otel_rl\n"
        "def load(path):\n"
        "    return open(path)\n"
        "for number in (1, 2):\n"
        "    with otel_rl.step(number), otel_rl.phase('train'):\n"
        "        if number == 2:\n"
        "            try: load('missing.jsonl')\n"
        "            except OSError as error: raise RuntimeError('no batch') from error\n"
    )
    status, (finding,) = report(programs, "--fail-if", "critical")

    assert status == 3
    assert finding["severity"] == "critical"
    assert finding["text"].partition(" failed: ")[2] == (
        "FileNotFoundError: [Errno 2] No such file or directory: 'missing.jsonl' (program.py:3, in load), which became"
        " RuntimeError: no batch, during step 2, phase train."
    )
    assert finding["symptoms"] == []
    page = next(programs.store.root.rglob("report.html")).read_text()
    assert "1 uncaught exception" in page
    assert "did not end in order" not in page


def test_another_status_than_0_is_a_failure(programs: Programs) -> None:
    # A text is printed, and the status is 1.
    programs.instrumented(STEPS.format(steps=4) + "sys.exit('no data')\n")
    code, (finding,) = report(programs, "--fail-if", "critical")
    assert code == 3
    assert finding["text"].endswith("exited with status 1, after step 3.")


def test_status_0_is_no_finding(programs: Programs) -> None:
    programs.instrumented(STEPS.format(steps=4) + "sys.exit(0)\n")
    assert report(programs, "--fail-if", "warning") == (0, [])


def test_ctrl_c_is_a_notice(programs: Programs) -> None:
    with started(programs, STUCK) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == -signal.SIGINT
    status, (finding,) = report(programs, "--fail-if", "warning")
    assert status == 0
    assert "was interrupted by Ctrl-C (SIGINT), during step 5" in finding["text"]


def test_sigterm_within_a_step_says_so(programs: Programs) -> None:
    with started(programs, STUCK) as process:
        process.terminate()
        assert process.wait(120) == -signal.SIGTERM
    status, (finding,) = report(programs, "--fail-if", "warning")
    assert status == 0
    assert "was stopped by SIGTERM, during step 5 (train)" in finding["text"]


def test_a_thread_that_dies_is_not_the_death_of_its_process(programs: Programs) -> None:
    programs.instrumented(
        "import threading\nthreading.Thread(target=lambda: {}['prompt'], name='prefetch').start()\n"
        + STEPS.format(steps=30)
    )
    status, findings = report(programs, "--fail-if", "critical")
    assert status == 0
    [finding] = [one for one in findings if one["severity"] != "notice"]
    assert (finding["code"], finding["severity"]) == ("thread_died", "warning")
    assert finding["text"].startswith("thread prefetch of ")
    assert "died of KeyError: 'prompt'" in finding["text"]
    assert "the process went on for " in finding["text"]


def test_a_job_that_runs_is_running_and_a_killed_one_is_not(programs: Programs) -> None:
    with started(programs, FOREVER) as process:
        deadline = time.monotonic() + 240
        while not list(programs.store.root.rglob("manifest.json")) and time.monotonic() < deadline:
            time.sleep(0.1)
        status, (finding,) = report(programs, "--fail-if", "warning")
        assert (status, finding["code"], finding["severity"]) == (0, "running", "notice")
        assert " is running, " in finding["text"]
        assert finding["text"].endswith(" ago.")
        process.kill()
        process.wait()
        # Where steps are missing after its last record, another one says so.
        status, (finding, *_) = report(programs, "--fail-if", "critical")
    assert status == 3
    assert "ended without a record of its end: killed, or os._exit, " in finding["text"]
    assert "step" in finding["text"]


POOL = """
import multiprocessing, time, otel_rl

def work(number):
    with otel_rl.tool("run"):
        otel_rl.flush()

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for number in range(1, 100_000):
            with otel_rl.step(number), otel_rl.phase("train"):
                if number == 1:
                    pool.map(work, range(8), chunksize=1)
                time.sleep(0.02)
            if number == 9:
                otel_rl.flush()
                print(flush=True)
"""


def test_of_a_job_that_was_killed_with_its_pool_the_trainer_is_named(programs: Programs) -> None:
    path = programs.write("train.py", POOL)
    trainer = subprocess.Popen(
        [INSTRUMENT, sys.executable, path],
        cwd=programs.directory, env=programs.environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    assert trainer.stdout is not None
    trainer.stdout.readline()
    os.killpg(trainer.pid, signal.SIGKILL)
    trainer.communicate()

    listed = programs.otel_rl("runs", programs.store.root, "--json")
    gone = rf"\S+ {trainer.pid} ended without a record of its end.*"
    assert re.fullmatch(gone, json.loads(listed.out)["failure"])
    _, findings = report(programs)
    ended = next(finding for finding in findings if finding["code"] == "ended")
    assert re.fullmatch(gone, ended["text"])
    assert "It stopped first" not in str(ended)
    listed = programs.otel_rl("runs", programs.store.root, "--json")
    assert re.fullmatch(gone, json.loads(listed.out)["failure"])


SERVER = """
import os, signal, sys, time, otel_rl

# The trainer is known to have ended three seconds after its last heartbeat.
print(flush=True)
sys.stdin.readline()
end = time.monotonic() + 4.5
while time.monotonic() < end:
    with otel_rl.tool("serve"):
        time.sleep(0.05)
otel_rl.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_server_that_began_first_and_outlived_the_trainer_is_not_the_first_to_stop(programs: Programs) -> None:
    programs.environ["OTEL_RL_RUN_ID"] = "run"
    server = subprocess.Popen(
        [INSTRUMENT, sys.executable, programs.write("serve.py", SERVER)], text=True,
        cwd=programs.directory, env=programs.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert server.stdout is not None
    server.stdout.readline()
    # Heartbeats come once in a second.
    killed = "with otel_rl.step(1):\n    time.sleep(2.5)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    programs.instrumented(f"import os, signal, time, otel_rl\n{killed}")
    server.communicate("\n")

    _, findings = report(programs)
    ended = next(finding for finding in findings if finding["code"] == "ended")
    assert f" {server.pid} " not in ended["text"]
    assert "It stopped first" in str(ended["evidence"])


def test_a_job_that_runs_and_makes_no_progress_says_for_how_long(programs: Programs) -> None:
    text = STEPS.format(steps=100) + "print(flush=True)\ntime.sleep(600)\n"
    with started(programs, text):
        said = ""
        deadline = time.monotonic() + 240
        while "progress" not in said and time.monotonic() < deadline:
            _, (finding, *_) = report(programs)
            said = finding["text"]
    assert finding["severity"] == "notice"
    assert re.search(r", after step 99, last sign .* ago; no progress for .* s, [\d,]+ times its usual step\.$", said)


def test_a_rank_that_does_not_report_is_no_failure_of_a_job_that_ended_well(programs: Programs) -> None:
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}
    programs.instrumented(STEPS.format(steps=4), **place)
    status, (finding,) = report(programs, "--fail-if", "critical")
    assert (status, finding["code"], finding["severity"]) == (0, "missing_ranks", "warning")
    assert "OTEL_RL_CHILDREN=all" in finding["evidence"][0]

    programs.instrumented(STEPS.format(steps=4) + "sys.exit(2)\n", **place)
    _, findings = report(programs)
    assert [finding["severity"] for finding in findings] == ["critical", "critical"]


def finding_of_two_ranks(programs: Programs) -> dict[str, Any]:
    """The only finding that is more than a notice."""
    findings = [one for one in report(programs)[1] if one["severity"] != "notice"]
    assert len(findings) == 1, [one["text"] for one in findings]
    return findings[0]


@pytest.mark.parametrize(
    ("how", "first"),
    [
        ("{}['reward']", "rank 1 failed: KeyError: 'reward' (program.py:7), during step 3, phase train."),
        ("sys.exit(7)", "rank 1 exited with status 7, during step 3."),
    ],
)
def test_the_first_error_in_time_over_all_ranks_is_the_headline(programs: Programs, how: str, first: str) -> None:
    # A rank that torchrun ends while it still starts would be one that never reported: rank 1 waits for the other.
    text = (
        "import os, pathlib, signal, sys, time, otel_rl\n"
        "there = pathlib.Path('rank0')\n"
        "for number in range(1, 6):\n"
        "    with otel_rl.step(number), otel_rl.phase('train'):\n"
        "        if number == 3 and os.environ['RANK'] == '1':\n"
        "            while not there.exists(): time.sleep(0.01)\n"
        f"            {how}\n"
        "        elif number == 3: there.touch(); time.sleep(60)\n"
    )
    programs.torchrun(text, "--nproc-per-node=2")
    finding = finding_of_two_ranks(programs)
    assert finding["text"].startswith(first)
    assert all(symptom["text"].startswith("rank 0 ") for symptom in finding["symptoms"])


#: Torchrun may end the other rank before its exception is uncaught; here it always does, since that one waits for it.
RANKS = """
import os, signal, sys, otel_rl, torch, torch.distributed as dist
dist.init_process_group("gloo")
try:
    for number in range(1, 6):
        with otel_rl.step(number), otel_rl.phase("train"):
            dist.all_reduce(torch.ones(2))
            if dist.get_rank() == 1 and number == 3:
                os.kill(os.getpid(), signal.SIGKILL)
except RuntimeError:
    signal.pause()
"""


def test_a_rank_that_is_killed_in_a_step_is_the_headline_and_the_one_that_fails_of_it_is_no_finding_of_its_own(
    programs: Programs,
) -> None:
    pytest.importorskip("torch")
    path = programs.write("train.py", RANKS)
    programs.run(INSTRUMENT, SCRIPTS / "torchrun", "--nproc-per-node=2", "--standalone", path)
    finding = finding_of_two_ranks(programs)
    assert finding["text"].startswith("Rank 1 stopped first in step 3 (train) and did not enter all_reduce number 4")
    assert {symptom["code"] for symptom in finding["symptoms"]} == {"ended", "errors"}
    assert all(symptom["text"].startswith("rank 0 ") for symptom in finding["symptoms"])


STILL = """
import datetime, time, otel_rl, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
for number in range(1, 6):
    with otel_rl.step(number):
        if dist.get_rank() == 1 and number == 3:
            time.sleep(30)
        dist.all_reduce(torch.ones(2))
"""


def test_a_rank_that_stands_still_until_another_ones_time_is_up_is_the_headline(programs: Programs) -> None:
    pytest.importorskip("torch")
    path = programs.write("train.py", STILL)
    programs.run(INSTRUMENT, SCRIPTS / "torchrun", "--nproc-per-node=2", "--standalone", path)
    finding = finding_of_two_ranks(programs)
    assert finding["text"].startswith("Rank 1 did not enter all_reduce number 3 of group default_pg")
    assert ", and rank 0 failed: RuntimeError: " in finding["text"]
    assert finding["ranks"] == [1]
