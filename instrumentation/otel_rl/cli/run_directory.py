"""The folder that commands read, as their arguments give it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    import argparse

_DEFAULT = "otel-rl"
#: Folders that a message names.
_NAMED = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments ``DIR`` and ``--run``."""
    configure_folder(parser)
    parser.add_argument(
        "--run", metavar="ID", help="which run, if DIR holds several; the beginning of its id is enough"
    )


def configure_folder(parser: argparse.ArgumentParser) -> None:
    """Declare the argument ``DIR``."""
    # Several are taken, so that they can be refused with what to do: a shell makes all runs of `otel-rl/*`.
    parser.add_argument(
        "directory",
        metavar="DIR",
        nargs="*",
        type=Path,
        help="what to read (default: $OTEL_RL_DATA_DIR, else ./otel-rl)",
    )


def choose_run_directory(arguments: argparse.Namespace) -> Path:
    """Return the one folder to read.

    Raises:
        UnusableInput: several are given.
    """
    given: list[Path] = arguments.directory
    if len(given) > 1:
        # A shell may have put files beside them.
        given = [path for path in given if path.is_dir()] or given
    if len(given) > 1:
        newest_first = sorted(given, key=_changed, reverse=True)
        names = " ".join(shlex.quote(str(path)) for path in newest_first[:_NAMED])
        left = f" and {len(given) - _NAMED} more" if len(given) > _NAMED else ""
        raise UnusableInput(
            f"{len(given)} folders are given, and it reads one: name one of these, newest first: {names}{left};"
            f" or give {shlex.quote(str(newest_first[0].parent))}, of which the newest run is read"
        )
    chosen = given[0] if given else Path(os.environ.get("OTEL_RL_DATA_DIR", "").strip() or _DEFAULT)
    return chosen.expanduser()


def _changed(path: Path) -> float:
    """Return when the folder got its last process; a page that is written into it later does not count."""
    try:
        return max((child.stat().st_mtime for child in path.iterdir() if child.is_dir()), default=path.stat().st_mtime)
    except OSError:
        return 0.0
