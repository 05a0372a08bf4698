"""The keys that processes log by step, and the rows of their values."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.store.reader.otlp_values import float_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Most keys of a run whose values have rows: a program may make a new one in every step.
_MOST = 20_000


@dataclass(slots=True)
class LoggedKey:
    """What the values of a key have come to; a row of ``logged_key``."""

    number: int
    process: int
    loop: str
    key: str
    is_guessed: bool
    is_made: bool
    first: int
    values: int = 0
    not_finite: int = 0
    restarts: int = 0
    time: int = 0
    last: float = math.nan
    last_step: int | None = None
    lowest: float | None = None
    lowest_step: int | None = None
    highest: float | None = None
    highest_step: int | None = None

    def add(self, step: int | None, time: int, value: float) -> None:
        """Take in a value, which may come after a later one."""
        self.values += step is not None
        self.first = min(self.first, time)
        if time >= self.time:
            # What is from before it was reordered on its way: the numbers did not begin again.
            self.restarts += step is not None and self.last_step is not None and step < self.last_step
            self.time, self.last, self.last_step = time, value, step
        if not math.isfinite(value):
            self.not_finite += step is not None
            return
        if self.lowest is None or value < self.lowest:
            self.lowest, self.lowest_step = value, step
        if self.highest is None or value > self.highest:
            self.highest, self.highest_step = value, step


class LoggedKeys:
    """All keys of a run that were logged, or of those that readers make."""

    def __init__(self, *, is_made: bool = False) -> None:
        self._is_made = is_made
        self._keys: dict[tuple[int, str, str, bool], LoggedKey] = {}

    def add(
        self, process: int, loop: str, step: int | None, first: int | None, time: int, values: Mapping[str, Any],
        *, is_guessed: bool = False,
    ) -> Iterator[tuple[Any, ...]]:  # fmt: skip
        """Yield the rows of a log call; what is no number has none, nor has a call without a step."""
        for key, value in values.items():
            number = float_or_none(value)
            known = None if number is None else self._of((process, loop, str(key), is_guessed), time)
            if known is not None and number is not None:
                known.add(step, time, number)
                if step is not None:
                    yield known.number, known.restarts, step, first, time, number

    def _of(self, key: tuple[int, str, str, bool], time: int) -> LoggedKey | None:
        known = self._keys.get(key)
        if known is None and len(self._keys) < _MOST:
            # Those that are made have numbers of their own.
            number = -len(self._keys) - 1 if self._is_made else len(self._keys) + 1
            known = self._keys[key] = LoggedKey(number, *key, self._is_made, time)
        return known

    def __len__(self) -> int:
        return len(self._keys)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the keys."""
        return map(astuple, self._keys.values())
