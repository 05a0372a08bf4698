"""The objects of one array in a large JSON file, one at a time.

The standard library's scanner decodes each object from a piece of the file; no event of a profiler comes near
:data:`LONGEST`. A package for this (``ijson``) would be one more to install for a file that only this command reads.
"""

from __future__ import annotations

import gzip
import json
import re
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PIECE = 1024 * 1024
#: Characters of the longest object, and of the head before the array.
LONGEST = 64 * 1024 * 1024
_BETWEEN = re.compile(r"[\s,]*")
#: Decimal: times are microseconds with three digits behind the point, more than a double holds.
_decode = json.JSONDecoder(parse_float=Decimal).raw_decode


class Cut(Exception):  # noqa: N818 - says what happened to the file
    """The file ends, or is no JSON any more, inside of the array; what came before is right."""


class ObjectsOf:
    """Iterates over the objects of the array ``key``; ``head`` and ``tail`` are the text before and after it."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.head = self.tail = ""
        self._begin = re.compile(rf'"{re.escape(key)}"\s*:\s*\[')
        self._text, self._place, self._ended = "", 0, False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the objects.

        Raises:
            Cut: the array does not end, or there is none.
            OSError: the file cannot be read.
        """
        opened: Any = gzip.open if self.path.name.endswith(".gz") else open
        with opened(self.path, "rt", encoding="utf-8", errors="replace") as stream:
            try:
                self._find_begin(stream)
                while (item := self._next(stream)) is not None:
                    if isinstance(item, dict):
                        yield item
            except (EOFError, gzip.BadGzipFile) as error:
                raise Cut from error
            self.tail = self._text[self._place :] + stream.read(_PIECE)

    def _more(self, stream: IO[str]) -> None:
        # As much again as there is: what is longer than a piece is not scanned from its start at every piece.
        rest = self._text[self._place :]
        if len(rest) > LONGEST:
            raise Cut
        more = stream.read(max(_PIECE, len(rest)))
        self._ended = not more
        self._text, self._place = rest + more, 0

    def _find_begin(self, stream: IO[str]) -> None:
        while (match := self._begin.search(self._text)) is None:
            self._more(stream)
            if self._ended:
                raise Cut
        self.head, self._place = self._text[: match.start()], match.end()

    def _next(self, stream: IO[str]) -> Any:
        """Return the next item; None behind the last one."""
        while True:
            between = _BETWEEN.match(self._text, self._place)
            self._place = between.end() if between is not None else self._place
            if self._text.startswith("]", self._place):
                self._place += 1
                return None
            try:
                item, end = _decode(self._text, self._place)
            except (ValueError, RecursionError) as error:
                self._more(stream)
                if self._ended:
                    raise Cut from error
                continue
            self._place = end
            return item if item is not None else {}
