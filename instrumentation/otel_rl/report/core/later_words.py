"""Sentences about later scores and judgements that are in no row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human

if TYPE_CHECKING:
    from otel_rl.store.tables import RunTables

_NOT_JOINED = "SELECT count(*) FROM change WHERE sample {}"
_LEFT_OUT = "SELECT coalesce(sum(changes_left_out), 0) FROM ended"


def said_of(tables: RunTables) -> list[str]:
    """Return a sentence for each reason for which some are in no row."""
    unknown, ambiguous = (tables.value(_NOT_JOINED.format(what)) for what in ("IS NULL", "= 0"))
    left_out = tables.value(_LEFT_OUT)
    said = []
    if unknown:
        said.append(f"{_amount(unknown, 'names', 'name')} no rollout of this run.")
    if ambiguous:
        said.append(f"{_amount(ambiguous, 'names', 'name')} several rollouts of this run, and joined none of them.")
    if left_out:
        said.append(f"{_amount(left_out, 'was', 'were')} dropped: too many at once.")
    return said


def _amount(number: int, one: str, several: str) -> str:
    return f"{human.amount(number, f'later score or judgement {one}', f'later scores or judgements {several}')}"
