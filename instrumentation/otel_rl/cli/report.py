"""``otel-rl report [DIR] [-o FILE] [--run ID]``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.cli import complain
from otel_rl.offline.reader.errors import UnusableInput

if TYPE_CHECKING:
    import argparse

_EXTRA = frozenset({"bokeh", "jinja2", "markupsafe", "tqdm"})
_DEFAULT = "otel-rl"

_DESCRIPTION = """\
Write one run as one HTML page: step time by phase, training curves, ranks and collectives, rollouts, tool and
model calls, rewards, errors, who is missing, what was dropped. The page needs no network and no server."""

_EPILOG = """\
DIR can be the data directory (the newest run is shown), one run in it, or the folder into which a collector writes
traces.jsonl, metrics.jsonl and logs.jsonl. The path of the page is printed on stdout, everything else on stderr."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument(
        "directory",
        metavar="DIR",
        nargs="?",
        type=Path,
        help="what to read (default: $OTEL_RL_DATA_DIR, else ./otel-rl)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="where to write the page (default: report.html beside the run)",
    )
    parser.add_argument(
        "--run", metavar="ID", help="which run, if DIR holds several; the beginning of its id is enough"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the page and print its path."""
    directory = arguments.directory or Path(os.environ.get("OTEL_RL_DATA_DIR", "").strip() or _DEFAULT)
    try:
        from otel_rl.offline.report import write_report  # noqa: PLC0415 - only this command needs the reader

        report = write_report(directory.expanduser(), arguments.output, arguments.run)
    except UnusableInput as error:
        return complain("report", str(error))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        fix = f"pip install {missing}, or install otel-rl with its extra `report`"
        return complain("report", f"needs {missing}, which is not installed: {fix}")
    for note in report.notes:
        print(f"otel-rl report: {note}", file=sys.stderr)
    print(report.output)
    return 0
