"""Sums by step, from the rows of calls: made of all rows at once, or anew for the steps that have new ones."""

from __future__ import annotations

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


#: What makes the sums of an empty ``call_by_step``, of all rows.
OF_ALL = (_statement(_ALL),)
#: What makes those of the steps anew that have rows after ``:summed``.
OF_NEW = (
    "CREATE INDEX IF NOT EXISTS calls_by_step ON call (step, second)",
    "CREATE TEMP TABLE IF NOT EXISTS touched (step INTEGER, second INTEGER)",
    "DELETE FROM touched",
    "INSERT INTO touched SELECT DISTINCT step, second FROM call WHERE rowid > :summed",
    """DELETE FROM call_by_step WHERE EXISTS
       (SELECT 1 FROM touched t WHERE t.step IS call_by_step.step AND t.second IS call_by_step.second)""",
    _statement(_TOUCHED),
)
