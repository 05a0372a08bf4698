"""``otel-rl top [DIR] [--run ID] [--once]``."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from otel_rl.cli import run_directory

if TYPE_CHECKING:
    import argparse

_DESCRIPTION = """\
Show a run in the terminal while it is written: state, step, step time by phase, the last values, what each rank does,
findings. q ends it."""

_EPILOG = """\
DIR can be the data directory (the newest run is shown) or one run in it. Where stdout is no terminal, one frame is
printed, as with --once. NO_COLOR is respected."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    run_directory.configure(parser)
    parser.add_argument("--once", action="store_true", help="print one frame as plain text, for scripts")


def run(arguments: argparse.Namespace) -> int:
    """Show the run."""
    from otel_rl.live import terminal  # noqa: PLC0415 - only this command needs the extra

    directory = run_directory.choose_run_directory(arguments)
    if arguments.once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A locale without these characters is no reason to fail.
            sys.stdout.reconfigure(errors="replace")
        terminal.print_once(directory, arguments.run)
    else:
        terminal.follow(directory, arguments.run)
    return 0
