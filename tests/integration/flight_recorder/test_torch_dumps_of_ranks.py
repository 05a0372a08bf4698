"""Dumps that PyTorch's flight recorder makes of real ranks over gloo, and files in NCCL's format that PyTorch reads."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from support.torch_dumps import entry, write
from test_postmortem_of_ranks import TIMEOUT, awaited, started

from otel_rl.cli import main
from otel_rl.core import settings
from otel_rl.ranks.postmortem import examine

if TYPE_CHECKING:
    from pathlib import Path

#: Gloo writes no dumps itself.
BEGIN = """
import os, signal, time, torch, otel_rl, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json
dist.init_process_group("gloo")
rank, message = dist.get_rank(), torch.ones(4)

prefix = os.environ["TORCH_FR_DUMP_TEMP_FILE"]

def wait_for(ranks):
    while not all(os.path.exists(f"{prefix}{other}") for other in ranks):
        time.sleep(0.01)

def dump(after=()):
    # A dump that is older than a collective cannot tell that its rank did not enter it.
    wait_for(after)
    for name, content in (("json_", _dump_fr_trace_json()), ("", _dump_fr_trace())):
        with open(f"{prefix}unfinished_{rank}_", "wb") as file:
            file.write(content)
        os.rename(f"{prefix}unfinished_{rank}_", f"{prefix}{name}{rank}")
    # Of all ranks, before one of them ends the job.
    wait_for(range(dist.get_world_size()))
"""
HANG = f"""{BEGIN}
def train():
    return dist.all_reduce(message, async_op=True)

for number in (1, 2):
    with otel_rl.step(number):
        train().wait()
with otel_rl.step(3):
    work = train() if rank == 0 else None
    dump(after=[0] if rank == 1 else [])
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    work.wait()
"""
MISMATCH = f"""{BEGIN}
with otel_rl.step(1):
    dist.all_reduce(message)
with otel_rl.step(2):
    # Of one size: gloo ends the process where bytes are left over.
    given = torch.ones(4) if rank == 0 else torch.ones(8, dtype=torch.float16)
    work = dist.all_reduce(given, async_op=True)
    dump()
os.kill(os.getpid(), signal.SIGKILL)
"""
#: What gloo counts beside the collectives that it records: some ranks send and receive, DDP reduces in C++.
UNEVEN = f"""{BEGIN}
import datetime
pair = dist.new_group([0, 1], group_desc="pair")
with otel_rl.step(1):
    if rank == 0:
        dist.send(message, 1)
        dist.isend(message, 1).wait()
    if rank == 1:
        dist.recv(message, 0)
        dist.recv(message)
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=60))
    dist.reduce_scatter(torch.zeros(4), [message] * 3)
    dist.all_gather_object([None] * 3, rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    model(message).sum().backward()
    if rank < 2:
        dist.all_reduce(message, group=pair)
    dist.barrier()
    work = dist.all_reduce(message, async_op=True) if rank < 2 else None
    dump(after=[0, 1] if rank == 2 else [])
    if rank < 2:
        work.wait()
    signal.pause()
"""


@pytest.fixture(autouse=True)
def _settings_of_the_other_tests():
    yield
    settings.reset()


def _run(folder: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "dumps").mkdir()
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", str(folder / "dumps" / "fr_"))
    with started(folder, program) as job:
        job.process.wait(TIMEOUT)


def _found(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    command = ["postmortem", str(folder / "otel-rl"), "--ring-dir", str(folder / "rings"), "--json", *options]
    assert main(command) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def _pytorch_reads(folder: Path, prefix: str) -> str:
    """What PyTorch's own analysis says of the files."""
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(folder), "--prefix", prefix]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_rings_and_dumps_both_name_the_rank_that_did_not_enter_and_the_report_shows_it_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(tmp_path, HANG, monkeypatch)
    found = _found(tmp_path, capsys)

    (absence,) = found["torch_dumps"]["absences"]
    assert (absence["operation"], absence["waiting"], absence["missing"]) == ("all_reduce", [0], [1])
    assert found["origins"] == [1]
    last = {one["rank"]: one["last"][0] for one in found["torch_dumps"]["ranks"]}
    assert [last[rank]["state"] for rank in (0, 1)] == ["scheduled", "returned"]
    assert last[0]["inputs"] == {"shapes": [[4]], "types": ["Float"], "more": 0}
    assert ("train", "train.py") in [(one["function"], one["file"].rpartition("/")[2]) for one in last[0]["frames"]]

    assert main(["postmortem", str(tmp_path / "otel-rl"), "--ring-dir", str(tmp_path / "rings")]) == 0
    assert f"rank 0 called it from train at {tmp_path}/train.py:" in capsys.readouterr().out
    _assert_the_json_form_says_the_same(tmp_path, capsys, found["torch_dumps"])
    _assert_the_report_shows_it_first(tmp_path, monkeypatch)


def _assert_the_json_form_says_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str], by_pickle: dict[str, Any]
) -> None:
    by_json = _found(folder, capsys, "--torch-dumps", str(folder / "dumps" / "fr_json_"))["torch_dumps"]
    assert by_json["absences"] == by_pickle["absences"]
    for one, other in zip(by_json["ranks"], by_pickle["ranks"], strict=True):
        # The JSON form has no frames.
        assert [{**entry, "frames": []} for entry in other["last"]] == one["last"]


def _assert_the_report_shows_it_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RL_RING_DIR", str(folder / "rings"))
    settings.reset()
    assert main(["report", str(folder / "otel-rl"), "-o", str(folder / "page.html")]) == 0
    page = html.unescape((folder / "page.html").read_text(encoding="utf-8"))
    section = page[page.index('<section id="') :].partition("</section>")[0]
    assert section.startswith('<section id="ending">')
    assert "By PyTorch's dumps: rank 1 did not enter all_reduce" in section
    assert "PyTorch's flight recorder" in section


def test_ranks_that_reduce_different_shapes_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(tmp_path, MISMATCH, monkeypatch)
    (mismatch,) = _found(tmp_path, capsys)["torch_dumps"]["mismatches"]
    assert (mismatch["what"], mismatch["operation"]) == ("shape", "all_reduce")
    assert mismatch["issued"] == [{"what": "[4] Float", "ranks": [0]}, {"what": "[8] Half", "ranks": [1]}]


def test_numbers_fit_where_some_ranks_send_and_receive_and_ddp_reduces_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dumps").mkdir()
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", str(tmp_path / "dumps" / "fr_"))
    with started(tmp_path, UNEVEN, ranks=3) as job:
        found = awaited(job, capsys, _both_wait_for_rank_2)

    assert {(wait["rank"], wait["for_rank"]) for wait in found["waits"]} == {(0, 2), (1, 2)}
    assert {wait["operation"] for wait in found["waits"]} == {"all_reduce"}
    (number,) = {wait["number"] for wait in found["waits"]}
    barrier = {one["rank"]: one["collective"] for one in found["ranks"]}[2]
    assert (barrier["operation"], barrier["number"]) == ("barrier", number - 1)
    (absence,) = found["torch_dumps"]["absences"]
    assert (absence["operation"], absence["waiting"], absence["missing"]) == ("all_reduce", [0, 1], [2])
    assert found["torch_dumps"]["mismatches"] == []


def _both_wait_for_rank_2(found: dict[str, Any]) -> bool:
    dumps = found.get("torch_dumps") or {"ranks": []}
    return found["origins"] == [2] and len(found["waits"]) == 2 and len(dumps["ranks"]) == 3


def test_pytorch_reads_the_files_in_the_format_of_nccl_and_says_the_same(tmp_path: Path) -> None:
    for rank, last in enumerate(("scheduled", None, "scheduled")):
        write(tmp_path, rank, [entry(1), entry(2), *([entry(3, state=last)] if last else [])])
    found = examine(tmp_path, tmp_path, None, tmp_path)

    assert [(one.collective.number, one.missing) for one in found.dumps.absences] == [(3, (1,))]
    said = _pytorch_reads(tmp_path, "trace_")
    assert "missing ranks: {1}" in said
    assert "collective: nccl:all_reduce" in said
