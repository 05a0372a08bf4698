"""The disk of a queue or of a file is full: senders are told, and what was acknowledged is not lost."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from integration.collector.collector_process import wait_for
from ledger_process import SPANS_PER_BATCH

if TYPE_CHECKING:
    from chain import Chain, Collector
    from ledger_process import Ledger
    from results import Table

SPANS = 60_000
DISK = "16m"
FILLER = "filler"


def on_a_small_disk(folder: Path, size: str = DISK, *, full: bool = False) -> list[str]:
    """Return a command that runs another with a disk of this size in a folder; only that process sees it."""
    folder.mkdir(exist_ok=True, parents=True)
    fill = f'head -c {size} /dev/zero > "$0/{FILLER}" 2>/dev/null || true' if full else "true"
    return [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'mount -t tmpfs -o size={size} none "$0" && {{ {fill}; }} && exec "$@"',
        str(folder),
    ]


def seen_by(collector: Collector, folder: Path) -> Path:
    """Return the way to a folder of a process that has mounted a disk there for itself alone."""
    assert collector.process is not None
    return Path(f"/proc/{collector.process.pid}/root{folder}")


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    trial = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return trial.returncode == 0


pytestmark = pytest.mark.skipif(not can_mount(), reason="a disk of a bounded size needs the right to mount (root)")


def test_a_full_disk_of_the_queue_pushes_back_and_drains_when_the_gateway_returns(
    chain: Chain, ledger: Ledger, table: Table
):
    gateway = chain.gateway()
    agent = chain.agent([gateway])
    agent.start(on_a_small_disk(agent.queue))
    ledger.send("full", agent.endpoint, spans=SPANS * 4, rate=0)
    wait_for(lambda: ledger.report("full")["retries"] >= 8, "senders to be pushed back")
    before = ledger.report("full")["acked"]
    gateway.start()
    wait_for(lambda: ledger.report("full")["acked"] > before, "senders to be let in again")
    ledger.stop("full")
    account = ledger.wait_until_still("full")
    table.add("disk of the queue full", account, disk=DISK)
    assert account["lost"] == account["refused"] == account["altered"] == 0
    assert account["duplicates"] <= account["retries"] * SPANS_PER_BATCH


def test_without_room_for_dead_letters_refused_spans_wait_until_there_is_some(
    chain: Chain, ledger: Ledger, table: Table
):
    gateway = chain.gateway()
    letters = gateway.folder / "letters"
    gateway.environment["OTEL_RL_COLLECTOR_DEAD_LETTER_DIR"] = str(letters)
    gateway.start(on_a_small_disk(letters, "64k", full=True))
    assert gateway.process is not None
    ledger.behave("poison", every=997)
    ledger.send("letters", gateway.endpoint, spans=SPANS // 4)
    wait_for(lambda: "no space left on device" in gateway.log(), "the log to say that no dead letter can be written")
    inside = seen_by(gateway, letters)
    assert [file for file in inside.glob("*.jsonl") if file.stat().st_size] == []
    (inside / FILLER).unlink()
    ledger.wait_for_acknowledged("letters", SPANS // 4)
    account = ledger.wait_until_still("letters")
    written = sum(spans_in(file) for file in inside.glob("*.jsonl"))
    table.add("disk of the dead letters full", account, dead_letters=written)
    assert account["lost"] == written > 0
    assert account["refused"] == account["altered"] == 0


def test_a_full_disk_of_the_file_sink_is_told_to_the_senders(chain: Chain, ledger: Ledger, table: Table):
    local = chain.collector("local", ["local.yaml"], {})
    local.start(on_a_small_disk(local.data, "4m"))
    assert local.process is not None
    ledger.send("file", local.endpoint, spans=SPANS, rate=0)
    wait_for(lambda: ledger.report("file")["retries"] >= 8, "senders to be told")
    assert "no space left on device" in local.log()
    account = ledger.report("file")
    account["lost"] = account["acked"] - spans_in(seen_by(local, local.data) / "traces.jsonl")
    table.add("disk of the file sink full", account, disk="4m")
    assert account["lost"] <= 0, "what was acknowledged is in the file"
    assert (seen_by(local, local.data) / "traces.jsonl").read_bytes().endswith(b"\n"), (
        "of what was not, no half line is"
    )
    assert local.process.poll() is None, "it goes on"


def spans_in(file: Path) -> int:
    """Count the spans of the lines that were written to their end."""
    lines = [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    resources = (resource for line in lines for resource in json.loads(line)["resourceSpans"])
    return sum(len(scope["spans"]) for resource in resources for scope in resource["scopeSpans"])
