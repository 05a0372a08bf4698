"""``otel-rl report [DIR] [-o FILE] [--run ID] [--torch-dumps PREFIX] [--json] [--mlflow] [--fail-if ...]``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.cli import complain, run_directory, say, terminal
from otel_rl.core import settings

if TYPE_CHECKING:
    import argparse

    from otel_rl.report import Report

_DESCRIPTION = """\
Write one run as one HTML page: what deserves a look, step time by phase, training curves, ranks and collectives,
rollouts, tool and model calls, rewards, errors, who is missing, what was dropped. The page needs no network and no
server."""

_EPILOG = """\
DIR can be the data directory (the newest run is shown), one run in it, or a folder into which collectors write
traces.jsonl, metrics.jsonl and logs.jsonl, or one with such folders. The path of the page is printed on stdout,
everything else on stderr: the first findings in three lines, and its address to click on (not with
OTEL_RL_QUIET=true). With --json findings, trajectories and the result go to stdout, and not the path.

Exit status: 0 the page is written, 2 it could not be made or uploaded, 3 it is written and --fail-if found something.
"""

#: Exit status of ``--fail-if``.
_FOUND = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    run_directory.configure(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="where to write the page (default: report.html beside the run)",
    )
    parser.add_argument(
        "--torch-dumps",
        metavar="PREFIX_OR_DIR",
        type=Path,
        help="dumps of PyTorch's flight recorder, as for `otel-rl postmortem`",
    )
    parser.add_argument(
        "--mlflow",
        action="store_true",
        help="upload the page to the run of MLflow that belongs to it (MLFLOW_TRACKING_URI, and MLFLOW_RUN_ID or the"
        " experiment's name)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print findings, trajectories and the result as JSON, for programs"
    )
    parser.add_argument(
        "--fail-if",
        choices=("critical", "warning"),
        help="end with status 3 where something is found that is at least that grave, for CI",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the page and print its path."""
    from otel_rl.report import write_report  # noqa: PLC0415 - only this command needs the reader

    dumps = arguments.torch_dumps.expanduser() if arguments.torch_dumps is not None else None
    report = write_report(run_directory.choose_run_directory(arguments), arguments.output, arguments.run, dumps)
    say("report", map(terminal.clean, report.notes))
    _print(report, as_json=arguments.json)
    if arguments.mlflow and (reason := _upload(report)):
        return complain("report", f"the page is written, and not in MLflow: {reason}")
    worst = report.overview.worst
    is_found = arguments.fail_if is not None and worst is not None and worst.is_at_least(arguments.fail_if)
    return _FOUND if is_found else 0


def _upload(report: Report) -> str:
    """Upload the page; return why that failed, or nothing."""
    from otel_rl.trackers.mlflow import report_upload  # noqa: PLC0415 - rarely asked for

    try:
        address = report_upload.upload(report.output, report.run_id)
    except report_upload.NotUploaded as error:
        return str(error)
    say("report", [f"uploaded to {address}"])
    return ""


def _print(report: Report, *, as_json: bool) -> None:
    from otel_rl.report.core import output  # noqa: PLC0415 - as above

    if as_json:
        content = {
            "page": str(report.output),
            **output.as_json(report.overview),
            "trajectories": report.trajectories,
            "engines": report.engines,
            "weight_syncs": report.weight_syncs,
            "weight_versions": report.weight_versions,
            "run": report.run,
        }
        print(json.dumps(content, indent=2))
        return
    if not settings.current().quiet:
        for line in output.lines(report.overview):
            print(terminal.clean(line), file=sys.stderr)
        # Terminals open it on a click.
        print(f"open {report.output.absolute().as_uri()}", file=sys.stderr)
    print(report.output)
