"""Lines of OTLP JSON files, read one at a time; what cannot be read is counted, never fatal."""

from __future__ import annotations

import errno
import json
import re
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.store.reader import compressed
from otel_rl.store.reader.former_names import bring_up_to_date
from otel_rl.store.reader.otlp import ROOTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from otel_rl.store.reader.unreadable import Unreadable

MAX_LINE_BYTES = 256 * 1024 * 1024
"""A longer line is no export request; reading it whole could exhaust the memory."""

_RUN_ID = re.compile(
    rb'"%b"\s*,\s*"value"\s*:\s*\{\s*"stringValue"\s*:\s*"([^"\\]+)"' % re.escape(names.RL_RUN_ID).encode()
)
_TRACE_ID = re.compile(rb'"traceId"\s*:\s*"(\w*)"')


def size(path: Path) -> int:
    """Bytes of a file, before it was compressed; 0 where it cannot be looked at."""
    try:
        return compressed.size(path)
    except OSError:
        return 0


def raw_lines(path: Path) -> Iterator[bytes]:
    """Lines of ``path`` with their line ends.

    Raises:
        OSError: the file cannot be opened or read.
    """
    place = 0
    try:
        for line in _lines_from(path, place):
            place += len(line)
            yield line
    except OSError as error:
        # Of a shared file system, where it was compressed on another machine meanwhile.
        if error.errno != errno.ESTALE:
            raise
        yield from _lines_from(path, place)


def _lines_from(path: Path, place: int) -> Iterator[bytes]:
    with compressed.opened(path) as stream:
        stream.seek(place)
        while line := stream.readline(MAX_LINE_BYTES):
            yield line


def matching_lines(path: Path, matches: Callable[[bytes], bool], problems: Unreadable | None = None) -> Iterator[bytes]:
    """Lines that match; from where a file cannot be read none, which ``problems`` collects."""
    number = 0
    try:
        for line in raw_lines(path):
            number += 1
            if matches(line):
                yield line
    except OSError as error:
        said = said_of(path, error, number)
        if problems is not None and said not in problems.errors:
            problems.errors.append(said)


def having(*needles: str) -> Callable[[bytes], bool]:
    """Match lines that contain one of ``needles``."""
    encoded = [needle.encode() for needle in needles]
    return lambda line: any(needle in line for needle in encoded)


def of_traces(trace_ids: Iterable[str]) -> Callable[[bytes], bool]:
    """Match lines that name one of these traces, however many these are."""
    encoded = {form.encode() for trace in trace_ids for form in (trace, trace.upper())}
    return lambda line: not encoded.isdisjoint(_TRACE_ID.findall(line))


def said_of(path: Path, error: OSError, number: int) -> str:
    """Say why a file cannot be read, or not to its end, and how many lines of it were read."""
    read = f" ({number} line{'' if number == 1 else 's'})" if number or compressed.is_compressed(path) else ""
    return f"{path}: {error.strerror or error}{read}"


def requests(path: Path, problems: Unreadable, advance: Callable[[int], object]) -> Iterator[dict[str, Any]]:
    """Yield the export requests of one file; ``advance`` gets the bytes read, ``problems`` collects the rest."""
    number = 0
    try:
        for line in raw_lines(path):
            number += 1
            advance(len(line))
            request = parse(line, problems)
            if request is not None:
                yield request
    except OSError as error:
        problems.errors.append(said_of(path, error, number))


def parse(line: bytes, problems: Unreadable) -> dict[str, Any] | None:
    """One line as an export request with today's names, or ``None`` after counting why not.

    An empty line or request counts as nothing.
    """
    if not line.strip():
        return None
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        if line.endswith(b"\n"):
            problems.unreadable += 1
        else:
            problems.cut_off += 1
        return None
    if request == {}:  # a valid request without content
        return None
    if not isinstance(request, dict) or not any(isinstance(request.get(root), list) for root in ROOTS):
        problems.foreign += 1
        return None
    bring_up_to_date(request)
    return request


def run_ids(paths: list[Path]) -> list[str]:
    """Ids of all runs named in these files, the one seen last first; files that cannot be read are passed over."""
    last_seen: dict[str, None] = {}
    for path in paths:
        for line in matching_lines(path, having(names.RL_RUN_ID)):
            for run_id in set(_RUN_ID.findall(line)):
                name = run_id.decode("utf-8", "replace")
                last_seen.pop(name, None)
                last_seen[name] = None
    return list(reversed(last_seen))
