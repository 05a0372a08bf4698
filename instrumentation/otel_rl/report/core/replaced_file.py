"""Where an output may be written, and a file that appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from otel_rl.store.reader.errors import UnusableInput
from otel_rl.store.reader.locate import SIGNAL_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.store.reader import RunSource


def target_of(output: Path | None, name: str, source: RunSource) -> Path:
    """Return the file to write; ``name`` is its name where none is given.

    Raises:
        UnusableInput: its folder is not there, or it would be read as telemetry from then on.
    """
    if output is None:
        return source.path / name
    target = output / name if output.is_dir() else output
    if not target.parent.is_dir():
        raise UnusableInput(f"cannot write {target}: {target.parent} is no folder; create it first")
    if SIGNAL_FILE.fullmatch(target.name) and target.resolve().is_relative_to(source.path.resolve()):
        raise UnusableInput(
            f"cannot write {target}: by its name it would be read as telemetry of the run; choose another"
        )
    return target


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
