"""A bar for what takes long, on a terminal and where tqdm is installed; silence otherwise."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SECONDS_BEFORE_PROGRESS = 1.0


@contextmanager
def bar(what: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
    """Give a function that takes how much more is done."""
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
