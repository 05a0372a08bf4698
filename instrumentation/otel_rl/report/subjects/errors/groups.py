"""Errors of the run, each once: groups of those that look alike, and the uncaught exceptions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from otel_rl.report.core.collected import asked_once
from otel_rl.semconv import events
from otel_rl.store.reader.uncaught_exceptions import UncaughtException, exception_of
from otel_rl.store.tables.load import UNKNOWN_TOOL

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected

#: Groups that are listed, and uncaught exceptions of which the stack is kept.
_GROUPS, _STACKS = 200, 20
_MESSAGE_LENGTH = 300
#: Nanoseconds for which an uncaught exception passes through spans before its record, and after it.
_BEFORE, _AFTER = 60_000_000_000, 5_000_000_000
#: Steps and phases, of which one ends once.
_IS_OWN = "e.place GLOB 'rl.*'"
_EACH_ONCE = f"""
-- How the process ended is said with its status.
NOT (e.kind = 'SystemExit' AND {_IS_OWN})
-- Not a span that failed because of one in it: what a server answers, its client reports in its own words.
AND NOT (e.is_span AND EXISTS (SELECT 1 FROM error o WHERE o.parent = e.span AND o.is_span = 1
                               AND (o.kind = e.kind OR o.is_server OR o.process <> e.process)))
-- Not the log record of the failure of its own span; of an unknown tool, its record has the name.
AND NOT (NOT e.is_span AND EXISTS (SELECT 1 FROM error o WHERE o.span = e.span AND o.is_span = 1 AND o.kind = e.kind))
AND NOT (e.is_span AND e.kind = 'unknown_tool'
         AND EXISTS (SELECT 1 FROM error o WHERE o.span = e.span AND o.is_span = 0 AND o.kind = '{UNKNOWN_TOOL}'))
-- Not what an uncaught exception explains: of calls that failed alike, and were tried again, it was the last one.
AND coalesce(e.child NOT IN (SELECT pid FROM exception JOIN process USING (process)), 1)
AND NOT ((e.ended = latest.ended OR {_IS_OWN})
         AND EXISTS (SELECT 1 FROM exception x WHERE x.process = e.process AND x.kind = e.kind
                     AND x.time BETWEEN e.ended - {_AFTER} AND e.ended + {_BEFORE}))"""
# Hangs come first: findings ask for all of them.
_LOOK_ALIKE = f"""
WITH latest AS (SELECT process, place, max(ended) AS ended FROM error GROUP BY process, place)
SELECT sum(count(*)) OVER () AS of_all, group_concat(DISTINCT coalesce(rank, '')) AS ranks, sum(is_span) AS spans,
       e.place, kind, substr(message, 1, {_MESSAGE_LENGTH})
       || CASE WHEN length(message) > {_MESSAGE_LENGTH} THEN '…' ELSE '' END AS text,
       count(*) AS number, min(started) AS first, label, step
FROM error e JOIN latest USING (process, place) JOIN process USING (process)
WHERE {_EACH_ONCE}
GROUP BY e.place, kind, text ORDER BY e.place <> '{events.RL_HANG.name}', number DESC, first LIMIT {_GROUPS}"""


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Errors that look alike; ``first`` in ns since the epoch, ``who`` and ``iteration`` are those of the first one."""

    #: Ranks that they are of; None is a process without a number.
    ranks: frozenset[int | None]
    #: How many of them are failed spans; the others are log records.
    spans: int
    where: str
    kind: str
    message: str
    number: int
    first: int
    who: str
    iteration: int | None

    @property
    def is_hang(self) -> bool:
        """True for what a watchdog has reported."""
        return self.where == events.RL_HANG.name


@asked_once
def uncaught(collected: Collected) -> list[UncaughtException]:
    """Return the uncaught exceptions, the first in time first; those have their stacks."""
    found = map(exception_of, collected.tables.events(events.RL_PROCESS_EXCEPTION.name))
    return [one if place < _STACKS else replace(one, stacktrace="") for place, one in enumerate(found)]


def number_uncaught(collected: Collected) -> int:
    """Return how many exceptions nothing caught; Ctrl-C is none."""
    return sum(not exception.is_interrupt for exception in uncaught(collected))


def number(collected: Collected) -> int:
    """Return how many errors there were, uncaught exceptions too."""
    return number_uncaught(collected) + sum(group.number for group in table(collected)) + left_out(collected)


def table(collected: Collected) -> list[ErrorGroup]:
    """Return groups of errors, the most frequent first."""
    return _grouped(collected)[0]


def left_out(collected: Collected) -> int:
    """Return the number of errors of further kinds than :func:`table` lists."""
    return _grouped(collected)[1]


@asked_once
def _grouped(collected: Collected) -> tuple[list[ErrorGroup], int]:
    rows = collected.tables.rows(_LOOK_ALIKE)
    groups = []
    for _, known, spans, *look in rows:
        ranks = frozenset(int(rank) if rank else None for rank in known.split(","))
        groups.append(ErrorGroup(ranks, spans, *look))
    groups.sort(key=lambda group: (-group.number, group.first))
    return groups, (rows[0]["of_all"] if rows else 0) - sum(group.number for group in groups)
