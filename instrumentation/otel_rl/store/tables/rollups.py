"""Sums of the rows of calls, of what is fair: by step made anew for the steps that have new ones, else added to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.store.tables.operations import CANCELLED

if TYPE_CHECKING:
    import sqlite3

#: Sums of the fair calls by step; NULL in ``step`` and a ``second`` where they have none.
_BY_STEP_COLUMNS = """
    callee INTEGER,
    attempt TEXT,
    rank INTEGER,
    step INTEGER,
    second INTEGER,
    calls INTEGER,
    seconds REAL,
    shortest REAL,
    longest REAL,
    occupied REAL, -- seconds in which a call was open: those at once count once
    occupied_in_rollouts REAL, -- the same by rollout, summed up
    failed INTEGER,
    with_retries INTEGER, -- calls that say how often they were sent
    retried INTEGER, -- calls that were sent more than once
    with_first_chunk INTEGER,
    first_chunk REAL,
    soonest REAL,
    latest REAL,
    waited REAL, -- seconds in which a call waited for its first chunk
    waited_in_rollouts REAL,
    in_rollouts INTEGER -- calls inside of a rollout
"""
#: How values of fair calls are spread.
_CALL_SPREAD = """
    callee INTEGER,
    value TEXT, -- column of call: seconds or first_chunk
    bucket INTEGER, -- eight buckets for each doubling; NULL for 0
    number INTEGER,
    total REAL,
    low REAL,
    high REAL
"""
#: Fair calls that failed or were cancelled.
_CALL_ERROR = """
    callee INTEGER,
    error TEXT, -- '' for those that were cancelled
    outcome TEXT, -- '' where it is no tool
    calls INTEGER,
    PRIMARY KEY (callee, error, outcome)
"""
#: Sums of fair calls.
_CALL_TOTAL = """
    callee INTEGER PRIMARY KEY,
    calls INTEGER,
    inputs INTEGER, -- calls that say their input tokens
    input REAL,
    outputs INTEGER, -- calls that say their output tokens
    output REAL,
    estimates INTEGER, -- calls whose output tokens are estimated
    estimated REAL,
    spoken INTEGER, -- calls whose output tokens are said or estimated
    spoke REAL -- seconds of these
"""
_TABLES = {
    "call_by_step": _BY_STEP_COLUMNS,
    "call_spread": _CALL_SPREAD,
    "call_error": _CALL_ERROR,
    "call_total": _CALL_TOTAL,
}
CREATE = (
    *(f"CREATE TABLE {name} ({text})" for name, text in _TABLES.items()),
    "CREATE TEMP TABLE touched (step INTEGER, second INTEGER)",
    "CREATE UNIQUE INDEX temp.touched_once ON touched (step IS NULL, coalesce(step, second))",
    "CREATE UNIQUE INDEX spreads_by_callee ON call_spread (callee, value, coalesce(bucket, -1))",
)

_ALL = "call JOIN process p USING (process)"
# Of a run that is followed a few steps have new rows: their old ones are found by index.
_TOUCHED = "touched t CROSS JOIN call ON call.step IS t.step AND call.second IS t.second JOIN process p USING (process)"
#: Of calls ordered by their begin each adds to the time that those before it have covered.
_MORE = "max({end} - max(started, coalesce(max({end}) OVER {window}, 0)), 0) / 1e9"
_FIRST_CHUNK = "started + CAST(first_chunk * 1e9 AS INTEGER)"
_CALL_BY_STEP = """
INSERT INTO call_by_step
SELECT callee, attempt, rank, step, second, count(*), sum(seconds), min(seconds), max(seconds), sum(more),
       sum(more_in_rollout), sum(error <> ''), count(retries), sum(retries > 0), count(first_chunk), sum(first_chunk),
       min(first_chunk), max(first_chunk), sum(more_waiting), sum(more_waiting_in_rollout), count(rollout)
FROM (
  SELECT callee, coalesce(p.attempt, '') AS attempt, p.rank AS rank, call.step, call.second, seconds, error, retries,
         rollout, first_chunk, {more} AS more, {more_in_rollout} AS more_in_rollout, {waiting} AS more_waiting,
         {waiting_in_rollout} AS more_waiting_in_rollout
  FROM {rows}
  WHERE is_fair
  WINDOW w AS (PARTITION BY {of_line} ORDER BY started, ended {before}),
         r AS (PARTITION BY {of_line}, rollout, trace ORDER BY started, ended {before}))
GROUP BY callee, attempt, rank, step, second"""
_BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"


def _statement(rows: str) -> str:
    chunk = _MORE.replace("{end}", f"({_FIRST_CHUNK})")
    return _CALL_BY_STEP.format(
        rows=rows,
        of_line="callee, p.attempt, p.rank, call.step, call.second",
        before=_BEFORE,
        more=_MORE.format(end="ended", window="w"),
        more_in_rollout=_MORE.format(end="ended", window="r"),
        waiting=chunk.format(window="w"),
        waiting_in_rollout=chunk.format(window="r"),
    )


_ADDED = """
INSERT INTO call_spread SELECT callee, '{value}', bucket({value}), count(*), sum({value}), min({value}), max({value})
FROM call WHERE is_fair AND rowid > :summed AND {value} IS NOT NULL GROUP BY callee, bucket({value})
ON CONFLICT (callee, value, coalesce(bucket, -1)) DO UPDATE SET number = number + excluded.number,
  total = total + excluded.total, low = min(low, excluded.low), high = max(high, excluded.high)"""
_TOTALS = (
    *(_ADDED.format(value=value) for value in ("seconds", "first_chunk")),
    f"""
    INSERT INTO call_error SELECT callee, error, coalesce(outcome, ''), count(*) FROM call
    WHERE is_fair AND rowid > :summed AND (error <> '' OR outcome = '{CANCELLED}')
    GROUP BY callee, error, outcome
    ON CONFLICT (callee, error, outcome) DO UPDATE SET calls = calls + excluded.calls""",
    """
    INSERT INTO call_total
    SELECT callee, count(*), count(input_tokens), total(input_tokens), count(output_tokens), total(output_tokens),
           sum(estimated_tokens IS NOT NULL AND output_tokens IS NULL),
           total(CASE WHEN output_tokens IS NULL THEN estimated_tokens END),
           count(coalesce(output_tokens, estimated_tokens)),
           total(CASE WHEN coalesce(output_tokens, estimated_tokens) IS NOT NULL THEN seconds END)
    FROM call WHERE is_fair AND rowid > :summed GROUP BY callee
    ON CONFLICT (callee) DO UPDATE SET calls = calls + excluded.calls, inputs = inputs + excluded.inputs,
      input = input + excluded.input, outputs = outputs + excluded.outputs, output = output + excluded.output,
      estimates = estimates + excluded.estimates, estimated = estimated + excluded.estimated,
      spoken = spoken + excluded.spoken, spoke = spoke + excluded.spoke""",
)


def clear(database: sqlite3.Connection) -> None:
    """Remove all sums."""
    for name in _TABLES:
        database.execute(f"DELETE FROM {name}")


#: What makes the sums of all rows, where there are none.
OF_ALL = (_statement(_ALL), "DELETE FROM touched", *_TOTALS)
#: What has rows that are new, or that were in another step, is summed anew by :data:`OF_NEW`.
TOUCH = "INSERT OR IGNORE INTO touched SELECT step, second FROM ({moments})"
#: What adds rows after ``:summed``.
OF_NEW = (
    "CREATE INDEX IF NOT EXISTS calls_by_step ON call (step, second)",
    TOUCH.format(moments="SELECT step, second FROM call WHERE rowid > :summed"),
    """DELETE FROM call_by_step WHERE EXISTS
       (SELECT 1 FROM touched t WHERE (t.step IS NULL) = (call_by_step.step IS NULL)
        AND coalesce(t.step, t.second) = coalesce(call_by_step.step, call_by_step.second))""",
    _statement(_TOUCHED),
    "DELETE FROM touched",
    *_TOTALS,
)
