"""A file that appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replacing(target: Path, advice: str) -> Iterator[IO[bytes]]:
    """Give a stream whose content becomes ``target`` at the end: until then the file that is there stays whole.

    Raises:
        UnusableInput: it cannot be written; ``advice`` says what to do.
    """
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        unfinished = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
            unfinished.chmod(0o666 & ~_umask())
            unfinished.replace(target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UnusableInput(f"cannot write {target}: {error.strerror or type(error).__name__}; {advice}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
