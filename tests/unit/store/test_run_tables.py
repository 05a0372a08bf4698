"""The tables of a run: rows of records in any order, sums by step that grow, and values that SQLite has no form for."""

from __future__ import annotations

import random
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from otel_rl.semconv import events
from otel_rl.store.reader import Log, Process, Span, UnusableInput
from otel_rl.store.reader.errors import NoRoom
from otel_rl.store.reader.records import SpanEvent
from otel_rl.store.tables import RunTables, place, run

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000_000
RANK = Process("one", manifest={"rank": 0})
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}


def span(start: float, end: float, values: dict[str, Any], process: Process = RANK, **more: Any) -> Span:
    begin = {"trace_id": "t", "span_id": f"{start}", "parent_id": "", "events": [], "failed": False, "message": ""}
    begin["name"] = "execute_tool search"
    return Span(
        process=process, scope="s", start=int(start * SECOND), end=int(end * SECOND), attributes=values, dropped=0,
        **(begin | more),
    )  # fmt: skip


def log(event: str, values: dict[str, Any], body: Any = None) -> Log:
    return Log(RANK, "s", event, 5, 9, "INFO", body, values, "t", "i")


def of_step(step: int, start: float, end: float, **more: Any) -> Span:
    return span(start, end, {**TOOL, "rl.loop.iteration": step}, **more)


def filled(*records: Any, tables: RunTables | None = None) -> RunTables:
    tables = tables or RunTables()
    for record in records:
        tables.add(record)
    tables.settle()
    return tables


def sums(tables: RunTables) -> list[tuple[Any, ...]]:
    query = "SELECT step, second, calls, seconds, occupied FROM call_by_step ORDER BY step, second"
    return [tuple(row) for row in tables.rows(query)]


def test_calls_at_once_count_once_in_the_time_that_they_keep_a_step_busy():
    calls = [of_step(1, 0, 2), of_step(1, 1, 3), of_step(1, 1.5, 2), of_step(1, 5, 6), span(7, 8, TOOL)]
    assert sums(filled(*calls)) == [(None, 8, 1, 1.0, 1.0), (1, None, 4, 5.5, 4.0)]


def test_sums_of_tables_that_grow_are_those_of_tables_that_were_made_at_once(tmp_path):
    dice = random.Random(1)  # noqa: S311 - repeatable on purpose
    calls = [
        of_step(step, start := dice.uniform(0, 9), start + dice.uniform(0, 3)) for step in (1, 2, 3) for _ in range(9)
    ]
    dice.shuffle(calls)
    growing = RunTables(tmp_path)
    for first in range(0, len(calls), 4):
        filled(*calls[first : first + 4], tables=growing)
    whole = sums(filled(*calls))
    assert [row[:3] for row in sums(growing)] == [row[:3] for row in whole]
    assert [row[3:] for row in sums(growing)] == [pytest.approx(row[3:]) for row in whole]


def test_a_failed_call_without_a_type_of_error_has_that_of_its_last_exception():
    raised = [SpanEvent("exception", 1, {"exception.type": kind}) for kind in ("ValueError", "TimeoutError")]
    other = SpanEvent("retry", 2, {})
    tables = filled(
        span(1, 2, TOOL, events=[*raised, other], failed=True, message="too late"),
        span(2, 3, TOOL, events=raised),
        span(3, 4, TOOL, events=[other], failed=True),
    )
    assert [row[0] for row in tables.rows("SELECT error FROM call ORDER BY ended")] == ["TimeoutError", "", "error"]
    assert [row[0] for row in tables.rows("SELECT message FROM error WHERE kind = 'TimeoutError'")] == ["too late"]


def unmarked_step(step: int, start: float, end: float, source: str = "guessed", process: Process = RANK) -> Span:
    values = {"rl.loop.iteration": step, "rl.loop.source": source}
    return span(start, end, values, process, name="rl.rank.step", trace_id=f"t{step}")


@pytest.mark.parametrize("source", ["guessed", "logged"])
def test_what_ends_within_a_step_that_nobody_marked_is_of_that_step(source):
    steps = [unmarked_step(1, 1, 3, source), unmarked_step(2, 3, 6, source)]
    others = [span(4, 5, TOOL, Process("of another process", manifest={})), span(7, 8, TOOL)]
    failed = {**TOOL, "error.type": "TimeoutError"}
    tables = filled(span(0.5, 0.9, TOOL), span(2, 2.5, TOOL), span(2, 4, failed, failed=True), *steps, *others)
    assert sums(tables) == [
        (None, 0, 1, 0.4, 0.4), (None, 5, 1, 1.0, 1.0), (None, 8, 1, 1.0, 1.0),
        (1, None, 1, 0.5, 0.5), (2, None, 1, 2.0, 2.0),
    ]  # fmt: skip
    assert [row[0] for row in tables.rows("SELECT step FROM error")] == [2]


@pytest.mark.parametrize("source", ["guessed", "logged"])
def test_the_time_of_a_phase_within_a_step_that_nobody_marked_is_not_also_time_in_no_phase(source):
    saves = span(1.5, 2.0, {"rl.phase": "checkpoint"}, name="rl.checkpoint", trace_id="of its own")
    tables = filled(saves, unmarked_step(1, 1, 3, source))
    assert tables.value("SELECT counts_to FROM phase") == 1
    assert tables.value("SELECT uncovered FROM step") == 1.5


def test_a_step_that_the_program_marks_takes_no_call_from_outside_of_it():
    assert sums(filled(span(2, 3, TOOL), unmarked_step(1, 1, 4, "given"))) == [(None, 3, 1, 1.0, 1.0)]


def test_a_rollout_in_no_step_is_of_the_guessed_step_in_which_it_ended_however_late_its_record_is():
    body = {"rl.rollout.reward": [1.0, 2.0], "rl.rollout.end_time": [2 * SECOND, 4 * SECOND]}
    late = Log(RANK, "s", events.RL_TRAJECTORIES.name, 9 * SECOND, 9, "INFO", body, {}, "", "")
    tables = filled(late, unmarked_step(1, 1, 3), unmarked_step(2, 3, 6))
    assert [tuple(row) for row in tables.rows("SELECT reward, step, second FROM sample")] == [
        (1, 1, None),
        (2, 2, None),
    ]
    assert tables.value("SELECT count(*) FROM score WHERE step IS NULL") == 0


def test_calls_between_guessed_steps_are_summed_alike_whenever_the_steps_are_read():
    dice = random.Random(2)  # noqa: S311 - repeatable on purpose
    records = [unmarked_step(step, 2 * step, 2 * step + 2) for step in range(1, 9)]
    records += [span(start := dice.uniform(0, 20), start + dice.uniform(0, 2), TOOL) for _ in range(60)]
    dice.shuffle(records)
    growing = RunTables()
    for first in range(0, len(records), 5):
        filled(*records[first : first + 5], tables=growing)
    whole = sums(filled(*records))
    assert [row[:3] for row in sums(growing)] == [row[:3] for row in whole]
    assert [row[3:] for row in sums(growing)] == [pytest.approx(row[3:]) for row in whole]


def test_sums_of_calls_have_the_rank_of_their_process_although_it_was_known_late():
    process = Process("late")
    tables = filled(of_step(1, 0, 1, process=process))
    process.manifest = {"rank": 3, "attempt": "0.1"}
    filled(of_step(2, 2, 3, process=process), tables=tables)
    query = "SELECT step, rank, attempt FROM call_by_step ORDER BY step"
    assert [tuple(row) for row in tables.rows(query)] == [(1, 3, "0.1"), (2, 3, "0.1")]


@pytest.mark.parametrize("grows", [False, True])
def test_what_was_said_of_a_copy_of_an_open_step_is_of_the_row_of_its_record(grows):
    row = {"rl.rollout.id": ["r"], "rl.rollout.trace_id": ["t"], "rl.rollout.model_calls": [1]}
    of = {"rl.loop.iteration": 1, "rl.trajectories.source": "rollout", "rl.trajectories.step": 1}
    said = {
        "rl.rollout.id": ["r"],
        "rl.rollout.trace_id": ["t"],
        "rl.rollout.model_calls": [5],
        "rl.rollout.reward": [1],
    }
    tables = RunTables()
    for record in (
        log(events.RL_TRAJECTORIES_PENDING.name, of, row),
        log(events.RL_TRAJECTORIES_CHANGES.name, {}, said),
        log(events.RL_TRAJECTORIES.name, of, row),
    ):
        tables.add(record)
        if grows:
            tables.settle()
    tables.settle()
    assert [tuple(row) for row in tables.rows("SELECT id, model_calls, reward FROM sample")] == [("r", 6, 1.0)]


def test_a_disk_without_room_is_named_with_what_to_do(tmp_path):
    tables = RunTables(tmp_path)
    tables.value("PRAGMA max_page_count = 40")
    with pytest.raises(NoRoom, match=f"cannot be kept in {tmp_path} .*another folder with TMPDIR"):
        filled(*(of_step(step, step, step + 1) for step in range(10_000)), tables=tables)


def test_calls_of_the_ranks_of_attempts_that_were_followed_are_in_no_view():
    earlier, later = (Process(key, manifest={"rank": 0, "attempt": key}) for key in ("0.0", "0.1"))
    tables = RunTables()
    for process in (earlier, later):
        tables.add(of_step(1, 0, 1, process=process))
    tables.settle()
    tables.supersede({earlier.attempt})
    assert tables.value("SELECT count(*) FROM call") == 2
    assert [tuple(row) for row in tables.rows("SELECT name, rank, attempt FROM calls")] == [("search", 0, "0.1")]


def test_starts_of_a_job_have_the_order_of_their_numbers():
    tables = filled(*(of_step(1, 0, 1, process=Process(key, manifest={"attempt": key})) for key in ("0.10", "0.9")))
    assert [row["attempt"] for row in tables.rows("SELECT attempt FROM calls ORDER BY start")] == ["0.9", "0.10"]


def test_who_a_process_was_may_be_known_later_than_its_first_record():
    process = Process("late")
    tables = filled(of_step(1, 0, 1, process=process))
    process.manifest = {"rank": 3}
    tables.settle()
    assert [row["rank"] for row in tables.rows("SELECT rank FROM calls")] == [3]


@pytest.mark.parametrize("name", ["\ud800", 'it\'s "quoted"; DROP TABLE call --', "", "\0", "x" * 100_000])
def test_names_of_the_program_are_values_whatever_they_hold(name):
    tables = filled(span(0, 1, TOOL | {"gen_ai.tool.name": name}))
    expected = (name or "execute_tool search").encode("utf-8", "replace").decode()
    assert tables.value("SELECT name FROM calls") == expected


def test_a_row_with_a_value_that_no_column_holds_keeps_its_others():
    values = TOOL | {"rl.loop.iteration": 2**70, "rl.tool.outcome": ["a", {"b": 1}], "error.type": "\udc00"}
    tables = filled(of_step(1, 0, 1), span(0, 2, values), of_step(2, 0, 1))
    assert tables.value("SELECT count(*) FROM call") == 3
    row = tables.rows("SELECT step, outcome, error, seconds FROM call WHERE error <> ''")[0]
    assert tuple(row) == (None, "['a', {'b': 1}]", "?", 2.0)


def test_events_come_back_as_they_were_recorded_but_for_what_comes_with_every_step():
    given = log("rl.checkpoint.saved", {"a": [1, 2.5, None, True], "b": float("inf"), "c": "\ud800"}, {"d": 2**80})
    tables = filled(given, log("rl.step", {"rl.loop.iteration": 1}, {"loss": 1.0}), log("", {}, "a line"))
    assert list(tables.events("rl.checkpoint.saved", "rl.step")) == [given]
    assert tables.value("SELECT count(*) FROM event") == 1


def test_tables_leave_no_file(tmp_path):
    tables = filled(of_step(1, 0, 1), tables=RunTables(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert tables.value("SELECT count(*) FROM call") == 1


def test_a_python_whose_sqlite_is_too_old_says_so(monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 25, 9))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.25.9")
    with pytest.raises(UnusableInput, match=r"SQLite 3\.25\.9; reading a run needs 3\.26\.0"):
        RunTables()


def test_tables_lie_on_a_disk_and_not_in_memory_that_looks_like_one(tmp_path: Path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    (tmp_path / "in memory").mkdir()
    point = str(tmp_path / "in memory").replace(" ", "\\040")
    mounts.write_text(f"1 0 8:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / {point} rw shared:1 - tmpfs tmpfs rw\n")
    monkeypatch.setattr(place, "_MOUNTS", mounts)
    assert place.file_system(tmp_path / "in memory" / "below") == "tmpfs"
    assert place.file_system(tmp_path) == "ext4"
    assert place.folder(tmp_path / "in memory") != tmp_path / "in memory"
    assert place.folder(tmp_path) == tmp_path


def test_a_bucket_holds_values_that_differ_by_less_than_a_tenth():
    assert [run.bucket(value) for value in (1.0, 1.08, 1.1, 2.0, 0.5)] == [0, 0, 1, 8, -8]
    assert [run.bucket(value) for value in (0.0, None)] == [None, None]
    assert run.bucket(-2.0) == run.NEGATIVE + run.bucket(2.0)
