"""What a run says of itself as a whole: its settings, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none, list_of

if TYPE_CHECKING:
    from otel_rl.store.reader.records import Log

_COLUMNS = (
    names.RL_RUN_RESULT_KEY,
    names.RL_RUN_RESULT_LAST,
    names.RL_RUN_RESULT_LAST_STEP,
    names.RL_RUN_RESULT_BEST,
    names.RL_RUN_RESULT_BEST_STEP,
)


@dataclass(frozen=True, slots=True)
class LoggedValue:
    """Last and best value of a key that the program logged, and their iterations; None for what is not known."""

    key: str
    last: float | None
    last_step: int | None = None
    best: float | None = None
    best_step: int | None = None


def result_of(log: Log) -> list[LoggedValue]:
    """Return what a process had logged at its end, keys that have a best value first; empty for any other record."""
    if log.event != events.RL_RUN_END.name:
        return []
    rows = zip_longest(*(list_of(log.body, name) for name in _COLUMNS))
    return [
        LoggedValue(key, float_or_none(last), int_or_none(last_step), float_or_none(best), int_or_none(best_step))
        for key, last, last_step, best, best_step in rows
        if isinstance(key, str)
    ]


def configuration_of(log: Log) -> tuple[str, dict[str, Any]] | None:
    """Return the source of settings and the settings themselves; None for any other record.

    A later record of the same source has only what has changed.
    """
    if log.event != events.RL_RUN_CONFIGURATION.name or not isinstance(log.body, dict):
        return None
    return str(log.attributes.get(names.RL_RUN_CONFIGURATION_SOURCE) or ""), log.body
