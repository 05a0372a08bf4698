"""``otel-rl trajectories [DIR] [--run ID] [--sample ID]``."""

from __future__ import annotations

import json
import sys
from itertools import chain
from typing import TYPE_CHECKING

from otel_rl.cli import complain, run_directory
from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    import argparse

_DESCRIPTION = """\
Print every trajectory of a run as a line of JSON: the samples of all steps and ranks. The page of `otel-rl report`
shows a selection of them."""

_EPILOG = """\
The keys are those of the rows in `otel-rl report --json`, see docs/trajectories.md. Lines come in the order in which
they were recorded. For example:

  otel-rl trajectories | jq -c 'select(."rl.rollout.reward" < 0)'
  otel-rl trajectories --sample 3f9ac2 | jq -c '[.step, ."rl.rollout.reward"]'
  python -c 'import pandas, sys; print(pandas.read_json(sys.stdin, lines=True).describe())' < <(otel-rl trajectories)

Exit status: 0 the lines are printed, also where there are none; 2 there is nothing to read."""

_RUNS_NAMED = 5
_NONE = "this run has none; docs/trajectories.md says where they come from"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    run_directory.configure(parser)
    parser.add_argument(
        "--sample",
        metavar="ID",
        default="",
        help="only those of this prompt or task, over all steps; the beginning of its rl.sample.id is enough",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the lines."""
    from otel_rl.report.core import sentences  # noqa: PLC0415 - as above
    from otel_rl.report.core.changed_trajectories import ChangedTrajectories, said_of  # noqa: PLC0415 - as above
    from otel_rl.report.core.pending_trajectories import PendingTrajectories  # noqa: PLC0415 - as above
    from otel_rl.report.core.trajectory_rows import rows  # noqa: PLC0415 - as above
    from otel_rl.semconv import attributes, events  # noqa: PLC0415 - as above
    from otel_rl.store.reader import Log, Reader  # noqa: PLC0415 - only this command needs the reader
    from otel_rl.store.reader.locate import find_run  # noqa: PLC0415 - as above

    try:
        source = find_run(run_directory.choose_run_directory(arguments), arguments.run)
        source.files = [file for file in source.files if file.signal == "logs"]
        reader, pending, printed = Reader(source), PendingTrajectories(), 0
        changed = ChangedTrajectories()
        changed.look_ahead(reader)
        logs = (record for record in reader.records() if isinstance(record, Log) and pending.add_log(record))
        joined = (with_changes for record in chain(logs, pending.close()) for with_changes in changed.add_log(record))
        for record in chain(joined, changed.close()):
            if record.event == events.RL_TRAJECTORIES.name:
                for row in rows(record) if isinstance(record.body, dict) else ():
                    if not arguments.sample or str(row.get(attributes.RL_SAMPLE_ID) or "").startswith(arguments.sample):
                        print(json.dumps(row.as_json()))
                        printed += 1
    except UnusableInput as error:
        return complain("trajectories", str(error))
    none = f"this run has none of sample {arguments.sample}" if arguments.sample else _NONE
    notes = [*([] if printed else [none]), *said_of(changed)]
    if source.others:
        notes.append(f"the newest run is shown; choose with --run: {', '.join(source.others[:_RUNS_NAMED])}")
    notes += source.remarks
    if unreadable := sentences.unreadable(reader.problems):
        notes.append(unreadable)
    for note in notes:
        print(f"otel-rl trajectories: {note}", file=sys.stderr)
    return 0
