"""Calls that hung: a finding by kind and name, with where, since when and for how long; what was no hang is none."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from unit.ranks.written_ranks import Ranks
from unit.report.made_up_jobs import STARTED, examined
from unit.report.synthetic_run import SECOND, process

from otel_rl.flight_recorder import layout, waiting
from otel_rl.flight_recorder.copies import WAITING_COPY
from otel_rl.flight_recorder.waiting import WaitingCall, WaitingCalls
from otel_rl.process import exit_records, lifetime
from otel_rl.ranks.postmortem import examine
from otel_rl.report.core import human
from otel_rl.report.core.collected import Collected
from otel_rl.report.core.flight_rings import FlightRings
from otel_rl.report.subjects import load, overview
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from pathlib import Path

    from unit.report.synthetic_run import ProcessWriter

    from otel_rl.report.core.finding import Finding


@pytest.fixture
def writer(tmp_path: Path) -> ProcessWriter:
    return process(tmp_path / "run", 0, started=STARTED)


def _hang(writer: ProcessWriter, at: float, name: str = "run_sandbox", **more: Any) -> None:
    values = {
        "rl.call.kind": "tool",
        "rl.call.name": name,
        "rl.hang.duration": 60.0,
        "rl.hang.limit": 60.0,
        "rl.call.hanging": 1,
        "rl.rollout.id": "r-7",
        "code.function.name": "sandbox.run",
        "code.file.path": "/home/user/agent/sandbox.py",
        "code.line.number": 12,
        "rl.loop.iteration": 3,
    }
    writer.event("rl.call.hang", at, attributes=values | more)


def _end(
    writer: ProcessWriter, at: float, ending: str, seconds: float, name: str = "run_sandbox", kind: str = "tool"
) -> None:
    values = {"rl.call.kind": kind, "rl.call.name": name, "rl.hang.duration": seconds, "rl.call.ending": ending}
    writer.event("rl.call.hang.end", at, attributes=values)


def _findings(writer: ProcessWriter) -> list[Finding]:
    writer.write()
    return [one for one in examined(writer.folder.parent).findings if one.code == "hanging_call"]


def test_a_call_that_has_not_returned_is_critical_and_says_where_and_for_how_long(writer: ProcessWriter) -> None:
    _hang(writer, 70)
    writer.event("rl.run.end", 130)
    [one] = _findings(writer)
    assert (one.severity, one.subject, one.onset, one.ranks) == ("critical", "run_sandbox", 3, [0])
    assert one.text.startswith("Tool run_sandbox hung for at least 2 min 00 s since ")
    assert one.text.endswith(
        " in rollout r-7, in sandbox.run (sandbox.py:12), and had not returned when its process ended;"
        " 1 hang, of rank 0."
    )


def test_a_call_hung_until_its_process_was_killed_and_is_a_warning_where_the_run_went_on(tmp_path: Path) -> None:
    # Long ago: a process that may be of another machine has ended for sure.
    writer = process(tmp_path / "run", 0, started=1_700_000_000_000_000_000)
    worker = process(tmp_path / "run", None, started=writer.started, process__pid=4712, rl__role="rollout")
    worker.clean_exit = False
    _hang(worker, 70)
    worker.event("exception", 80)
    worker.write()
    writer.event("rl.run.end", 18_000)
    [one] = _findings(writer)
    assert one.severity == "warning"
    assert one.text.startswith("Tool run_sandbox hung for at least 1 min 10 s since ")
    assert ", and had not returned when its process ended, after which the run went on; 1 hang" in one.text


def test_a_call_of_a_process_without_an_end_is_critical_where_no_other_went_on(writer: ProcessWriter) -> None:
    other = process(writer.folder.parent, 1, started=STARTED)
    other.exit_reason = "uncaught RuntimeError"
    other.event("rl.run.end", 90)
    other.write()
    _hang(writer, 70)
    [one] = _findings(writer)
    assert one.severity == "critical"


def test_a_call_that_returned_after_its_limit_is_a_notice_beside_what_is_usual(writer: ProcessWriter) -> None:
    _hang(writer, 70, "chat m", **{"rl.call.kind": "model", "rl.call.usual_duration": 4.0})
    _end(writer, 100, "returned", 90.0, "chat m", "model")
    [one] = _findings(writer)
    assert (one.severity, one.section, one.look_at) == ("notice", "models", [])
    assert one.text.startswith("Model call chat m took 1 min 30 s (usually 4 s), and returned; 1 call beyond")


def test_calls_that_failed_are_a_warning_with_the_longest(writer: ProcessWriter) -> None:
    _hang(writer, 70)
    _end(writer, 310, "failed", 300.0)
    _hang(writer, 400)
    _end(writer, 440, "dropped", 100.0)
    [one] = _findings(writer)
    assert one.severity == "warning"
    assert one.text.startswith("Tool run_sandbox hung for 5 min 00 s since ")
    assert one.text.endswith(", and came to its end late; 2 hangs, of rank 0: 2 failed or dropped.")


def test_what_is_said_of_a_call_is_of_the_one_that_did_not_return_and_not_of_one_that_took_longer(
    writer: ProcessWriter,
) -> None:
    for at, ending, rollout in ((70, "failed", "r-1"), (800, "returned", "r-2")):
        _hang(writer, at, **{"rl.rollout.id": rollout})
        _end(writer, at + 440, ending, 500.0)
    _hang(writer, 1300, **{"rl.rollout.id": "r-3", "rl.call.hanging": 3})
    writer.event("rl.run.end", 1340)
    [one] = _findings(writer)
    assert one.text.startswith("Tool run_sandbox hung for at least 1 min 40 s since ")
    assert " in rollout r-3, in sandbox.run (sandbox.py:12), and had not returned when" in one.text
    assert one.text.endswith("; 4 hangs, of rank 0: 3 had not returned, 1 failed or dropped; 1 more returned late.")


def test_of_calls_in_two_processes_length_begin_and_rollout_are_of_the_same_one(writer: ProcessWriter) -> None:
    other = process(writer.folder.parent, 1, started=STARTED)
    _hang(other, 60, **{"rl.rollout.id": "short"})
    _end(other, 70, "failed", 70.0)
    other.write()
    _hang(writer, 200, **{"rl.rollout.id": "long"})
    _end(writer, 440, "failed", 300.0)
    [one] = _findings(writer)
    assert one.text.startswith(f"Tool run_sandbox hung for 5 min 00 s since {human.moment(STARTED + 140 * SECOND)}")
    assert " in rollout long, " in one.text


def test_a_call_was_open_until_its_process_was_seen_last_and_not_only_up_to_its_last_record(
    writer: ProcessWriter,
) -> None:
    writer.clean_exit = False
    _hang(writer, 70)
    writer.write()
    own = lifetime.own()._replace(pid=2**22 + 1)
    manifest = writer.folder / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "lifetime": list(own)}))
    calls = tuple(WaitingCall("tool", name, hangs=True) for name in ("run_sandbox", "run_sandbox", "search"))
    path = writer.folder / WAITING_COPY
    waiting.write(path, WaitingCalls(own, writer.folder.parent.name, "host", 0, (), STARTED + 70 * SECOND, 0, calls))
    waiting.stamp(path, STARTED + 670 * SECOND)
    [one] = [one for one in examined(writer.folder.parent).findings if one.code == "hanging_call"]
    assert one.text.startswith("Tool run_sandbox hung for at least 11 min 00 s since ")
    # By the list another one hung when the process was killed.
    assert one.text.endswith("; 2 hangs, of rank 0: 2 had not returned.")


@pytest.mark.parametrize("is_killed", [False, True])
def test_ranks_that_wait_for_the_rank_of_a_hanging_call_are_its_cost_and_no_finding_of_their_own(
    writer: ProcessWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    own = lifetime.own()
    ranks = _rank_1_hangs_in_a_tool(tmp_path / "rings")
    if is_killed:
        ranks.tells(own, -9)
        monkeypatch.setattr(lifetime, "is_alive", lambda _: False)
    hanging = process(writer.folder.parent, 1, started=STARTED, process__pid=own.pid)
    _hang(hanging, 70)
    values = {"rl.hang.duration": 60.0, "rl.hang.limit": 60.0, "rl.loop.iteration": 3}
    writer.event(
        "rl.hang", 75, body="no progress for 60 s in step 3, waits in all_reduce", attributes=values, severity=17
    )
    for one in (hanging, writer):
        one.clean_exit = False
        one.write()
    found = Collected(Reader(find_run(writer.folder.parent)), load()).read(lambda _: None)
    found.rings = FlightRings(None, examine(tmp_path / "rings", tmp_path / "rings"))
    [one] = [one for one in overview.examine(found).findings if one.code in ("hanging_call", "hang", "ended")]
    assert (one.code, one.severity, one.ranks, one.cost) == (
        "hanging_call",
        "critical",
        [1],
        1.0 if is_killed else None,
    )
    waits = "had waited" if is_killed else "wait"
    assert one.text.endswith(f"; rank 0, rank 2 {waits} for rank 1 in all_reduce number 2 of group default_pg.")
    assert "hang" in {symptom.code for symptom in one.symptoms}
    assert any("did not enter all_reduce number 2" in symptom.text for symptom in one.symptoms) == is_killed


@pytest.mark.parametrize(("status", "oom_kills"), [(-9, 1), (-11, 0), (3, 0)], ids=["OOM kill", "crash", "status"])
def test_a_rank_of_a_hanging_call_that_had_an_end_of_its_own_keeps_its_finding(
    writer: ProcessWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, oom_kills: int
) -> None:
    own, rings = lifetime.own(), tmp_path / "rings"
    _rank_1_hangs_in_a_tool(rings)
    seen = exit_records.make(own, status, 1, "torchrun's agent", oom_kills)
    (rings / "otel-rl-run-node.exits").write_text(json.dumps({**asdict(seen), "lifetime": list(own)}))
    monkeypatch.setattr(lifetime, "is_alive", lambda _: False)
    hanging = process(writer.folder.parent, 1, started=STARTED, process__pid=own.pid)
    _hang(hanging, 70)
    for one in (hanging, writer):
        one.clean_exit = False
        one.write()
    found = Collected(Reader(find_run(writer.folder.parent)), load()).read(lambda _: None)
    found.rings = FlightRings(None, examine(rings, rings))
    codes = [one.code for one in overview.examine(found).findings if one.code in ("hanging_call", "ended")]
    assert codes == ["ended", "hanging_call"]


def _rank_1_hangs_in_a_tool(folder: Path) -> Ranks:
    folder.mkdir()
    ranks = Ranks(folder)
    for rank in range(3):
        ranks.passed(rank, 1)
    for rank in (0, 2):
        ranks.waits(rank, 2)
    ranks.opens(1, layout.STEP, "", 3)
    ranks.opens(1, layout.PHASE, "sample")
    hanging = WaitingCall("tool", "run_sandbox", began=1, since=1, hangs=True)
    waiting.write(folder / "otel-rl-run-1.waits", WaitingCalls(lifetime.own(), "run", "node2", 1, calls=(hanging,)))
    return ranks


@pytest.mark.parametrize("ending", ["returned", "usual", "went_on"])
def test_a_first_call_that_was_meant_to_be_long_is_no_finding(writer: ProcessWriter, ending: str) -> None:
    _hang(writer, 70, "build")
    _end(writer, 310, ending, 300.0, "build")
    assert _findings(writer) == []
