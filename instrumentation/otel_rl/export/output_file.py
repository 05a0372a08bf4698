"""The file that an export writes, and the room for its rows beside it."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from otel_rl.report.core import replaced_file
from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Of gzip: a third of the time of the highest one, for a tenth more bytes.
_LEVEL = 5
_ADVICE = "name a file in another place"


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Give a stream whose content becomes ``target`` at the end, compressed where the name ends with ``.gz``.

    Raises:
        UnusableInput: it cannot be written.
    """
    with replaced_file.replacing(target, _ADVICE) as stream:
        if target.name.endswith(".gz"):
            with gzip.GzipFile(target.name[: -len(".gz")], "wb", _LEVEL, stream) as packed:
                yield packed  # type: ignore[misc] # as good as a file
        else:
            yield stream


@contextmanager
def room_beside(target: Path) -> Iterator[None]:
    """Say what to do where the temporary rows beside ``target`` cannot be written.

    Raises:
        UnusableInput: they cannot.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _unwritable(target, f"the rows beside it, which take about as much room: {error}") from error
    except OSError as error:
        raise _unwritable(target, error.strerror or type(error).__name__) from error


def _unwritable(target: Path, reason: str) -> UnusableInput:
    return UnusableInput(f"cannot write {target}: {reason}; {_ADVICE}")
