"""The end of a file: its lines from the last one backwards, and what its last bytes say without being parsed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from otel_rl.semconv import attributes as names
from otel_rl.store.reader.compressed import BlocksFromEnd, in_either_form, is_compressed, opened, present, size
from otel_rl.store.reader.lines import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CHUNK = 64 * 1024
#: A time in ns since the epoch, and a step. In a text of the program quotes have a backslash before them, so neither
#: can be made up.
_STEP = re.compile(
    rb'"key"\s*:\s*"%b"\s*,\s*"value"\s*:\s*\{\s*"intValue"\s*:\s*"?(\d{1,18})\b' % names.RL_LOOP_ITERATION.encode()
)
_MOMENT = re.compile(rb'imeUnixNano"\s*:\s*"?(\d{10,19})\b')


def lines_from_end(path: Path, most: int | None = None, end: int | None = None) -> Iterator[bytes]:
    """Yield the lines of ``path`` with their line ends, the last one first; of the last ``most`` bytes only whole ones.

    With ``end`` that byte is taken for the end of the file.

    What is appended meanwhile is left out. Memory is that of the longest line, and of a compressed file a few MiB.

    Raises:
        OSError: the file cannot be opened or read; of a compressed one that is cut off, after the lines that can be.
    """
    path = present(path)
    blocks = BlocksFromEnd(path) if is_compressed(path) else None
    if blocks is not None:
        end = blocks.length if end is None else min(end, blocks.length)
    elif end is None:
        end = size(path)
    begin = 0 if most is None else max(end - most, 0)
    # Of a line whose begin has not been read, the last piece first.
    pieces: list[bytes] = []
    for chunk in _chunks_from_end(path, begin, end) if blocks is None else blocks.chunks(begin, end):
        head, found, rest = chunk.partition(b"\n")
        if found:
            yield from reversed(_lines(rest + b"".join(reversed(pieces))))
            pieces = [head + found]
        elif sum(map(len, pieces)) > MAX_LINE_BYTES:
            return
        else:
            pieces.append(chunk)
    if begin == 0:
        yield from reversed(_lines(b"".join(reversed(pieces))))
    if blocks is not None and blocks.error is not None:
        raise blocks.error


def _chunks_from_end(path: Path, begin: int, end: int) -> Iterator[bytes]:
    """Yield the pieces of the file, the last one first; it is not kept open, as thousands are read side by side."""
    while end > begin:
        start = max(end - _CHUNK, begin)
        with opened(path) as stream:
            stream.seek(start)
            chunk = stream.read(end - start)
        yield chunk
        end = start


def _lines(data: bytes) -> list[bytes]:
    *lines, last = data.split(b"\n")
    return [*(line + b"\n" for line in lines), *([last] if last else [])]


def end_of_lines(path: Path) -> int:
    """Return where the last whole line of ``path`` ends: behind it may be the begin of another one."""
    try:
        end = size(path)
        for chunk in _chunks_from_end(path, 0, end):
            if (place := chunk.rfind(b"\n")) >= 0:
                return end - len(chunk) + place + 1
            end -= len(chunk)
    except OSError:
        return 0
    return 0


def last_moment(path: Path) -> int:
    """Return the latest time in the last bytes of ``path``, in ns since the epoch; 0 without one."""
    return _highest(path, _MOMENT) or 0


def last_step(path: Path) -> int | None:
    """Return the highest step in the last bytes of ``path``; None without one."""
    return _highest(path, _STEP)


def _highest(path: Path, pattern: re.Pattern[bytes]) -> int | None:
    """Return the highest number of ``pattern`` in the last bytes, of a line that is cut, too."""
    try:
        return max(map(int, pattern.findall(in_either_form(path, _end))), default=None)
    except OSError:
        return None


def _end(path: Path) -> bytes:
    if is_compressed(path):
        blocks = BlocksFromEnd(path)
        return b"".join(reversed(list(blocks.chunks(max(blocks.length - _CHUNK, 0), blocks.length))))
    with path.open("rb") as stream:
        end = stream.seek(0, 2)
        stream.seek(max(end - _CHUNK, 0))
        return stream.read(_CHUNK)
