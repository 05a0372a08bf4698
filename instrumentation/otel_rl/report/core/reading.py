"""What the user sees of the reading of a run: a bar while it takes long, and notes afterwards."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from otel_rl.report.core import human, sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_rl.store.reader import Reader, RunSource

_SECONDS_BEFORE_PROGRESS = 1.0


@contextmanager
def bar(what: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
    """Give a function that takes how much more is done; it shows a bar on a terminal if tqdm is installed."""
    if not sys.stderr.isatty():
        yield _nothing
        return
    try:
        from tqdm import tqdm  # noqa: PLC0415 - of the extra `report`
    except ModuleNotFoundError:
        yield _nothing
        return
    with tqdm(total=total, desc=what, delay=_SECONDS_BEFORE_PROGRESS, unit=unit, unit_scale=True, leave=False) as shown:
        yield shown.update


def _nothing(_more: int) -> None:
    pass


def notes_of(source: RunSource, reader: Reader) -> list[str]:
    """Return what the user should know of what was read."""
    notes = []
    if source.others:
        notes.append(
            f"this is run {source.run_id or source.path.name}; choose with --run: {human.listed(source.others)}"
        )
    notes += source.remarks
    if unreadable := sentences.unreadable(reader.problems):
        notes.append(unreadable[0].lower() + unreadable[1:].rstrip("."))
    return notes
