"""``otel-rl postmortem [DIR] [--run ID] [--ring-dir DIR] [--torch-dumps PREFIX] [--json]``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.cli import run_directory
from otel_rl.core import settings

if TYPE_CHECKING:
    import argparse

_DESCRIPTION = """\
Show where each rank of a run is or was last (step, phase, collective), who waits for whom, and at whom that ends.
Works while the job hangs, and after it was killed."""

_EPILOG = """\
DIR can be the data directory (the newest run is shown), one run in it, or a folder of rings. Rings of processes that
run, or were killed, lie in memory of their node: run this there. Exit status 2: nothing was found."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    run_directory.configure(parser)
    parser.add_argument(
        "--ring-dir",
        metavar="DIR",
        type=Path,
        help="where the rings of this node lie (default: $OTEL_RL_RING_DIR, else /dev/shm)",
    )
    parser.add_argument(
        "--torch-dumps",
        metavar="PREFIX_OR_DIR",
        type=Path,
        help="dumps of PyTorch's flight recorder: the prefix of the files, or their folder (default: where the run's"
        " TORCH_FR_DUMP_TEMP_FILE said)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the postmortem."""
    from otel_rl.ranks.postmortem import examine  # noqa: PLC0415 - only this command needs the reader
    from otel_rl.ranks.postmortem.text import as_json, as_text  # noqa: PLC0415

    rings = arguments.ring_dir or Path(settings.load(os.environ)[0].ring_directory)
    dumps = arguments.torch_dumps.expanduser() if arguments.torch_dumps is not None else None
    result = examine(run_directory.choose_run_directory(arguments), rings.expanduser(), arguments.run, dumps)
    print(json.dumps(as_json(result), indent=1) if arguments.json else as_text(result))
    return 0
