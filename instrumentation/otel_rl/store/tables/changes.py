"""Joins what was said of samples later, or in other processes, to their rows.

A change names the trace and the id of its rollout, or one of them, or the id of the sample; what several rows have is
joined to none. A sample is made anew of its record and all that was said of it, so that nothing depends on when that
is read.
"""

from __future__ import annotations

import json
from itertools import accumulate
from typing import TYPE_CHECKING

from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status
from otel_rl.store.tables import joined_versions, samples
from otel_rl.store.tables.samples import METRIC, SCORE, RecordedSample, Row
from otel_rl.telemetry import side_calls

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

#: Columns that add up.
_COUNTS = (
    names.RL_ROLLOUT_TURNS,
    names.RL_ROLLOUT_MODEL_CALLS,
    names.RL_ROLLOUT_MODEL_ERRORS,
    names.RL_ROLLOUT_INPUT_TOKENS,
    names.RL_ROLLOUT_OUTPUT_TOKENS,
    names.RL_ROLLOUT_TOOL_CALLS,
    names.RL_ROLLOUT_TOOL_ERRORS,
    names.RL_ROLLOUT_TOOL_RETRIES,
    names.RL_ROLLOUT_SPAN_ERRORS,
    names.RL_ROLLOUT_CHILD_CALLS,
    names.RL_ROLLOUT_SERVICE_CALLS,
    names.RL_ROLLOUT_SERVICE_SECONDS,
    *(name for columns in side_calls.COLUMNS.values() for name in columns),
)
#: Columns of which the last word counts.
_JUDGEMENTS = (
    names.RL_ROLLOUT_TRAINED,
    names.RL_ROLLOUT_ADVANTAGE,
    names.RL_ROLLOUT_AGE,
    names.RL_ROLLOUT_SUCCESS,
    names.RL_ROLLOUT_DISCARD_REASON,
)
_INDEXES = tuple(
    f"CREATE INDEX IF NOT EXISTS {name} ON {where}"
    for name, where in (
        ("samples_by_id", "sample (id)"),
        ("samples_by_trace", "sample (trace)"),
        ("samples_by_sample_id", "sample (sample_id)"),
        ("scores_by_sample", "score (sample)"),
        ("changes_by_sample", "change (sample)"),
    )
)
#: Samples as their records had them, before anything was said of them.
_TOLD = (
    "CREATE TABLE IF NOT EXISTS told_sample AS SELECT * FROM sample WHERE 0",
    "CREATE TABLE IF NOT EXISTS told_score AS SELECT * FROM score WHERE 0",
    "CREATE UNIQUE INDEX IF NOT EXISTS told_samples ON told_sample (sample)",
    "CREATE INDEX IF NOT EXISTS told_scores ON told_score (sample)",
)
#: What a change names, and the rows that are meant: those with both trace and id, else those with one of them.
_NAMES = (
    ("trace IS NOT NULL AND id IS NOT NULL", "s.trace = change.trace AND s.id = change.id"),
    ("trace IS NOT NULL AND id IS NULL", "s.trace = change.trace"),
    ("id IS NOT NULL", "s.id = change.id"),
    ("sample_id IS NOT NULL", "s.sample_id = change.sample_id"),
)
_FIND = """
UPDATE change SET sample = (SELECT CASE count(*) WHEN 0 THEN NULL WHEN 1 THEN min(sample) ELSE 0 END
                            FROM (SELECT sample FROM sample s WHERE {rows} LIMIT 2))
WHERE sample IS NULL AND {named}"""
_KEEP = (
    """INSERT INTO told_score SELECT * FROM score
       WHERE sample = ?1 AND NOT EXISTS (SELECT 1 FROM told_sample WHERE sample = ?1)""",
    "INSERT OR IGNORE INTO told_sample SELECT * FROM sample WHERE sample = ?1",
)
_UPDATE = f"UPDATE sample SET {', '.join(f'{name} = ?' for name in samples.CELLS)} WHERE sample = ?"
_WRITE_SCORE = "INSERT INTO score VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
#: A row of which something was said may be suspect since then, or may be none any more. Of what is the lowest reward
#: see ``training.lowest_rewards``.
_SUSPECT = (
    "CREATE TEMP TABLE IF NOT EXISTS lowest_reward (scored_by TEXT PRIMARY KEY, lowest REAL)",
    "DELETE FROM lowest_reward",
    """
    INSERT INTO lowest_reward
    SELECT scored_by, CASE WHEN number >= 8 AND low < high AND
             (SELECT count(*) FROM (SELECT 1 FROM sample s WHERE s.scored_by = few.scored_by AND s.reward = low
                                    LIMIT 2)) = 2 THEN low ELSE 0.0 END
    FROM (SELECT scored_by, count(*) AS number, min(reward) AS low, max(reward) AS high FROM sample
          WHERE reward IS NOT NULL GROUP BY scored_by) few""",
    """
    UPDATE sample SET suspect = CASE WHEN reward IS NOT NULL
        AND (status IN ('failed', 'cancelled') OR model_errors > 0 OR tool_errors > 0 OR span_errors > 0
             OR judge_errors > 0 OR tool_model_errors > 0)
        AND reward = (SELECT lowest FROM lowest_reward l WHERE l.scored_by = sample.scored_by) THEN 1 END
    WHERE sample IN (SELECT sample FROM told_sample)""",
)


def join(database: sqlite3.Connection) -> None:
    """Join the changes that have found their sample since the last time."""
    if database.execute("SELECT 1 FROM change WHERE sample IS NULL LIMIT 1").fetchone() is None:
        return
    for statement in (*_INDEXES, *_TOLD):
        database.execute(statement)
    for named, rows in _NAMES:
        database.execute(_FIND.format(named=named, rows=rows))
    found = database.execute("SELECT DISTINCT sample FROM change WHERE sample > 0 AND NOT is_joined").fetchall()
    for (sample,) in found:
        for statement in _KEEP:
            database.execute(statement, (sample,))
        _make_anew(database, sample)
    database.execute("UPDATE change SET is_joined = 1 WHERE sample > 0")
    for statement in _SUSPECT if found else ():
        database.execute(statement)


def _make_anew(database: sqlite3.Connection, sample: int) -> None:
    """Make a sample of what its record says of it and of all that was said later."""
    record = database.execute("SELECT *, NULL AS rank FROM told_sample WHERE sample = ?", (sample,)).fetchone()
    values = database.execute("SELECT * FROM told_score WHERE sample = ? ORDER BY rowid", (sample,))
    [row] = samples.with_scores([samples.of_cells(record)], values)
    said = database.execute(
        "SELECT time, estimator, body FROM change WHERE sample = ? ORDER BY time, rowid", (sample,)
    ).fetchall()
    _JoinedSample(row, record["time"]).add_all(_read(said))
    database.execute(_UPDATE, (*samples.cells(row), sample))
    database.execute("DELETE FROM score WHERE sample = ?", (sample,))
    written = samples.scores(row, sample, record["process"], record["step"], record["time"])
    database.executemany(_WRITE_SCORE, written)


def _read(said: list[sqlite3.Row]) -> Iterator[tuple[int, RecordedSample]]:
    for time, estimator, body in said:
        columns, named, weights = json.loads(body)
        yield time, RecordedSample(columns, named, weights, estimator)


class _JoinedSample:
    """A row that takes in what was said of it, the earliest first."""

    def __init__(self, row: Row, recorded: int) -> None:
        self._row, self._columns = row, row.columns
        #: When the advantage was told, and when a reward came that the record had not.
        self._advantage = recorded if row.get(names.RL_ROLLOUT_ADVANTAGE) is not None else None
        self._rewarded = 0
        self._has_reason = row.get(names.RL_ROLLOUT_STOP_REASON) is not None

    def add_all(self, said: Iterator[tuple[int, RecordedSample]]) -> None:
        for time, change in said:
            self._add_counts(change, time)
            self._judge(change, time)
            self._add_named(change)
            self._add_turns(change)
            joined_versions.join(self._columns, change.columns)
        self._row.has_later_reward = self._advantage is not None and self._rewarded > self._advantage

    def _add_counts(self, change: RecordedSample, time: int) -> None:
        for name in _COUNTS:
            if (more := change.number(name)) is not None:
                self._columns[name] = int((self._row.number(name) or 0) + more)
        if (reward := change.number(names.RL_ROLLOUT_REWARD)) is not None:
            self._columns[names.RL_ROLLOUT_REWARD] = (self._row.number(names.RL_ROLLOUT_REWARD) or 0.0) + reward
            self._rewarded = time

    def _judge(self, change: RecordedSample, time: int) -> None:
        columns = self._columns
        columns |= {name: value for name in _JUDGEMENTS if (value := change.get(name)) is not None}
        if change.get(names.RL_ROLLOUT_ADVANTAGE) is not None:
            self._advantage, self._row.estimator = time, change.estimator
        reason = change.get(names.RL_ROLLOUT_STOP_REASON)
        if reason is not None and not self._has_reason:
            columns[names.RL_ROLLOUT_STOP_REASON] = reason
        status = columns.get(names.RL_ROLLOUT_STATUS)
        if change.get(names.RL_ROLLOUT_DISCARD_REASON) is not None and status in (None, Status.FINISHED):
            columns[names.RL_ROLLOUT_STATUS] = Status.DISCARDED

    def _add_named(self, change: RecordedSample) -> None:
        row = self._row
        for name in change.named[SCORE]:
            weight = change.weights.get(name, 1)
            if name in row.scores and row.weights.get(name, 1) != weight:
                row.weights[name] = None
            elif weight != 1:
                row.weights[name] = weight
        for kind in (SCORE, METRIC):
            for name, value in change.named[kind].items():
                row.named[kind][name] = row.named[kind].get(name, 0.0) + value

    def _add_turns(self, change: RecordedSample) -> None:
        said = change.get(names.RL_ROLLOUT_TURN_REWARDS)
        if not isinstance(said, list):
            return
        had = self._columns.get(names.RL_ROLLOUT_TURN_REWARDS)
        rewards = list(had) if isinstance(had, list) else []
        rewards += [None] * (len(said) - len(rewards))
        for turn, reward in enumerate(said):
            if isinstance(reward, (int, float)):
                rewards[turn] = (rewards[turn] or 0.0) + reward
        self._columns[names.RL_ROLLOUT_TURN_REWARDS] = rewards
        self._columns[names.RL_ROLLOUT_CUMULATIVE_REWARDS] = list(accumulate(reward or 0.0 for reward in rewards))
