"""Pages of the beginning of a run, and of all of it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from otel_rl.live import updates
from otel_rl.report import subjects
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import overview
from otel_rl.store.reader import Log, Reader, Span, find_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from unit.report.synthetic_run import ProcessWriter

    from otel_rl.store.reader import Record

STARTED = 1_700_000_000_000_000_000


class _EarlyReader(Reader):
    """Reads what was recorded in the first seconds of a run only."""

    seconds = math.inf

    def _of_this_run(self, *args: Any) -> Iterator[Record]:
        return (record for record in super()._of_this_run(*args) if self._is_early(record))

    def _is_early(self, record: Record) -> bool:
        return not isinstance(record, (Span, Log)) or _moment(record) - STARTED <= self.seconds * 1e9


def _moment(record: Span | Log) -> int:
    return record.end if isinstance(record, Span) else record.time


def collected(run: Path, seconds: float = math.inf) -> Collected:
    """Read a run that began at :data:`STARTED`, up to a moment."""
    reader = _EarlyReader(find_run(run))
    reader.seconds = seconds
    return Collected(reader, subjects.load()).read(lambda _: None)


def first_page(of: Collected) -> dict[str, Any]:
    return json.loads(updates.first_page(of, overview.examine(of)))


def changes(of: Collected, state: Mapping[str, str]) -> dict[str, Any]:
    return json.loads(updates.changes(of, overview.examine(of), state))


def log_steps(writer: ProcessWriter, steps: int, *more: str) -> None:
    """Log a loss every second, and other values from the fourth step on."""
    for step in range(1, steps + 1):
        values = {name: float(step) for name in more} if step > 3 else {}
        writer.event("rl.step", step, {"loss": 1 / step, **values}, {"rl.loop.iteration": step})
