"""``otel-rl import PATH... [--evaluation PATH] [--output DIR] [--run ID] [--reward-key KEY]``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.cli import run_directory, say

if TYPE_CHECKING:
    import argparse

_DESCRIPTION = """\
Make a run of rollouts that slime (*.pt) or verl (*.jsonl) dumped, see docs/runs.md. Its folder is printed on stdout.
Exit status: 0 all is imported, 1 some files or lines are not, 2 nothing is."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = _DESCRIPTION
    parser.add_argument("paths", metavar="PATH", nargs="*", type=Path, help="a dump, or a folder of dumps")
    parser.add_argument("--evaluation", metavar="PATH", action="append", type=Path, default=[], help="of evaluations")
    parser.add_argument(
        "--output", metavar="DIR", dest="directory", nargs=1, type=Path, default=[], help="folder of runs"
    )
    parser.add_argument("--run", metavar="ID", help="name of the run (default: made of the paths of the dumps)")
    parser.add_argument("--reward-key", metavar="KEY", help="value that is trained on, of rewards with several (slime)")


def run(arguments: argparse.Namespace) -> int:
    """Import, and print the folder of the run."""
    from otel_rl.dumps.imported_run import import_dumps  # noqa: PLC0415 - only this command needs the readers

    output = run_directory.choose_run_directory(arguments)
    folder, notes = import_dumps(arguments.paths, arguments.evaluation, output, arguments.run, arguments.reward_key)
    say("import", notes)
    print(folder)
    return int(bool(notes))
