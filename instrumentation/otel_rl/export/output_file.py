"""A file that appears whole or not at all."""

from __future__ import annotations

import gzip
import os
import sqlite3
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Of gzip: a third of the time of the highest one, for a tenth more bytes.
_LEVEL = 5


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Give a stream whose content becomes ``target`` at the end, compressed where the name ends with ``.gz``.

    Raises:
        UnusableInput: it cannot be written.
    """
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        unfinished = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                if target.name.endswith(".gz"):
                    with gzip.GzipFile(target.name[: -len(".gz")], "wb", _LEVEL, stream) as packed:
                        yield packed  # type: ignore[misc] # as good as a file
                else:
                    yield stream
            unfinished.chmod(0o666 & ~_umask())
            unfinished.replace(target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _unwritable(target, error.strerror or type(error).__name__) from error


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
    return UnusableInput(f"cannot write {target}: {reason}; name a file in another place")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
