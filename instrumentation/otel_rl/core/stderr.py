"""Write one line to standard error, without changing what the program writes there or how it ends.

A line that stays in a text buffer because the write failed is written again by the interpreter's last flush. When that
fails too, exit status 0 becomes 120. So the line goes straight to the file descriptor and never into that buffer.

A leaf: it imports only what every interpreter has loaded already.
"""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def write_line(line: str) -> None:
    """Write ``line`` where the program's standard error goes now; no error escapes."""
    try:
        stream: Any = sys.stderr
        if stream is None:
            return
        # Only the exact type: a subclass or an object of the program's may do more than write to its descriptor.
        if type(stream) is not io.TextIOWrapper or (descriptor := _descriptor(stream)) is None:
            _write_to_object(stream, line)
        elif stream is not sys.__stderr__ or _is_standard_error(descriptor):
            _write_to_descriptor(stream, descriptor, line)
    except Exception:  # noqa: BLE001, S110 - closed, full, or an object that can do less than a file
        pass


def _write_to_object(stream: Any, line: str) -> None:
    stream.write(line + "\n")
    stream.flush()


def _write_to_descriptor(stream: io.TextIOWrapper, descriptor: int, line: str) -> None:
    try:
        # What the program wrote before comes first. When this fails, its text stays in the buffer, as without us.
        stream.flush()
    finally:
        os.write(descriptor, (line + "\n").encode(stream.encoding, "backslashreplace"))


def _descriptor(stream: io.TextIOWrapper) -> int | None:
    try:
        return stream.fileno()
    except io.UnsupportedOperation:
        return None


def _is_standard_error(descriptor: int) -> bool:
    """Return whether this is the standard error of the start: a file opened later may have its number.

    A descriptor from the parent process or from ``os.dup2`` is inheritable; one that Python opened is not (PEP 446).
    """
    return os.get_inheritable(descriptor)
