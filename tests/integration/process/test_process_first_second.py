"""A job is known while it loads: from the import of its library on, and without a trace where it records nothing."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from process_support import Programs

#: What is on disk after the import, and the threads that the program has then.
IMPORT = """
import os
import openai
print(len(os.listdir("/proc/self/task")), flush=True)
"""
#: Waits for a rank that never comes, until the watchdog has told so.
RENDEZVOUS = """
import os, signal, threading, time
import torch.distributed as dist
from otel_rl.telemetry import progress

def kill():
    while not any(part.told_at for part in progress.open_parts()): time.sleep(0.01)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)

os.environ.update(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
threading.Thread(target=kill, daemon=True).start()
dist.init_process_group("gloo")
"""
#: Waits for a batch that never comes, until the watchdog has told so; then somebody presses Ctrl-C.
LOADER = """
import os, signal, threading, time
from torch.utils.data import DataLoader, Dataset
from otel_rl.telemetry import progress

class Data(Dataset):
    def __len__(self): return 8
    def __getitem__(self, number): signal.pause()

def interrupt():
    while not any(part.told_at for part in progress.open_parts()): time.sleep(0.01)
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
next(iter(DataLoader(Data(), num_workers=1)))
"""
#: A rank of torchrun has its number from the begin on.
LAUNCHED = {
    "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0",
    "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
}  # fmt: skip


def test_a_job_that_is_killed_while_it_loads_has_left_its_begin(programs: Programs) -> None:
    done = programs.instrumented(IMPORT + "os.kill(os.getpid(), 9)\n")

    assert (done.code, done.out) == (-signal.SIGKILL, "1\n")
    (manifest,) = programs.store.manifests()
    (begin,) = programs.store.events("rl.run.start")
    assert (manifest["clean_exit"], manifest["ended_unix_nano"]) == (False, None)
    assert abs(int(begin["timeUnixNano"]) - manifest["started_unix_nano"]) < 60e9
    (row,) = map(json.loads, programs.otel_rl("runs", "--json").out.splitlines())
    assert (row["state"], row["program"]) == ("gone", "program.py")


def test_a_job_that_records_nothing_leaves_nothing_and_no_process_of_its_either(programs: Programs) -> None:
    fork = "child = os.fork()\nif not child: raise SystemExit\nos.waitpid(child, 0)\n"
    done = programs.instrumented(IMPORT + fork + "print(os.listdir('.'))\n", OTEL_RL_QUIET="1")

    assert (done.code, done.err) == (0, "")
    assert "'otel-rl'" in done.out
    assert not programs.store.root.exists()


def test_a_job_that_fails_after_the_import_has_one_begin_and_its_exception(programs: Programs) -> None:
    done = programs.instrumented(IMPORT + "raise ValueError('no data')\n")

    assert done.code == 1
    assert len(programs.store.events("rl.run.start")) == 1
    assert len(programs.store.events("rl.process.exception")) == 1
    assert list(programs.store.root.rglob("logs-shown-*")) == []


def test_a_program_that_may_not_write_there_does_not_notice(programs: Programs) -> None:
    programs.write("taken", "")
    done = programs.instrumented(IMPORT, OTEL_RL_QUIET="1", OTEL_RL_DATA_DIR="taken/data", OTEL_RL_RING_DIR="/nowhere")

    assert (done.code, done.out, done.err) == (0, "1\n", "")


@pytest.mark.parametrize("environ", [{}, LAUNCHED], ids=["that the program numbers", "of torchrun"])
def test_a_rank_that_waits_for_another_one_is_told_and_known_after_its_kill(
    programs: Programs, environ: dict[str, str]
) -> None:
    done = programs.instrumented(RENDEZVOUS, OTEL_RL_HANG_SECONDS="0.5", **environ)

    assert done.code == -signal.SIGKILL
    (line,) = (line for line in done.err.splitlines() if " waits: " in line)
    place = "before the first step, in init_process_group (world size 2"
    assert f"{place}, 127.0.0.1:0) for " in line
    assert f"at line {len(RENDEZVOUS.splitlines())} of " in line
    assert "program.py" in line
    for command in ("runs", "postmortem", "report"):
        said = programs.otel_rl(command)
        assert f"{place}) for " in said.out + said.err


def test_a_job_that_is_interrupted_in_a_wait_says_for_what_and_how_long_it_had_waited(programs: Programs) -> None:
    done = programs.instrumented(LOADER, OTEL_RL_HANG_SECONDS="0.5")

    assert done.code == -signal.SIGINT
    assert "goes on" not in done.err
    (line,) = (line for line in done.err.splitlines() if "ended without success" in line)
    assert ": the wait for a batch of its data loader (1 workers) ended without success after " in line
    said = programs.otel_rl("report")
    (verdict,) = (line for line in (said.out + said.err).splitlines() if line.startswith("warning: "))
    assert "was interrupted by Ctrl-C (SIGINT), in the wait for a batch of its data loader (1 workers) for " in verdict
