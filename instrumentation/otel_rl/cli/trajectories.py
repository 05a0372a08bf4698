"""``otel-rl trajectories [DIR] [--run ID] [--step N] [--sample ID] [--rollout ID] [--skip N] [--limit N]``."""

from __future__ import annotations

import argparse
import json
from itertools import islice
from typing import TYPE_CHECKING

from otel_rl.cli import run_directory, say
from otel_rl.report.core import sentences
from otel_rl.report.core.later_words import said_of
from otel_rl.report.core.messages import by_call, messages_of
from otel_rl.semconv import attributes, events
from otel_rl.store.reader import Reader
from otel_rl.store.reader.locate import find_run
from otel_rl.store.tables import RunTables, place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_rl.report.core.messages import Message
    from otel_rl.store.tables.samples import Row
_DESCRIPTION = """\
Print every trajectory of a run as a line of JSON: the samples of all steps and ranks. The page of `otel-rl report`
shows a selection of them. With --rollout the messages of one conversation, where content was recorded."""

_EPILOG = """\
The keys are those of the rows in `otel-rl report --json`, see docs/trajectories.md. Lines come in the order in which
they were recorded. For example:

  otel-rl trajectories | jq -c 'select(."rl.rollout.reward" < 0)'
  otel-rl trajectories --step 12 --skip 100 --limit 50
  otel-rl trajectories --rollout 12-3 | jq -r '.role + ": " + .text'
  otel-rl trajectories --sample 3f9ac2 | jq -c '[.step, ."rl.rollout.reward"]'
  python -c 'import pandas, sys; print(pandas.read_json(sys.stdin, lines=True).describe())' < <(otel-rl trajectories)

Exit status: 0 the lines are printed, also where there are none; 2 there is nothing to read."""

_RUNS_NAMED = 5
_NO_TEXT = (
    "nothing that was said in rollout {} is recorded: content is off (docs/content.md), or its spans were left out"
    " (OTEL_RL_ROLLOUT_SPANS, docs/trajectories.md)"
)
_NO_ROLLOUT = (
    "this run has no rollout {}, or it has not ended yet; `otel-rl trajectories` prints a line for each, with its id:"
    " otel-rl trajectories | jq -r '.[\"rl.rollout.id\"]'"
)
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
    parser.add_argument("--step", metavar="N", type=int, help="only those of this step")
    parser.add_argument("--rollout", metavar="ID", help="the conversation of this rl.rollout.id, a message per line")
    parser.add_argument("--skip", metavar="N", type=_whole_number, default=0, help="leave out the first N lines")
    parser.add_argument("--limit", metavar="N", type=_whole_number, help="print at most N lines")


def _whole_number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of lines; give a whole number from 0 on")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Print the lines."""
    source = find_run(run_directory.choose_run_directory(arguments), arguments.run)
    files = source.files
    source.files = [file for file in files if file.signal == "logs"]
    reader, tables = Reader(source), RunTables(place.folder())
    found: list[Row] = []
    chosen = _rows(reader, tables, arguments)
    if arguments.rollout is None:
        lines: Iterator[dict[str, object]] = (row.as_json() for row in chosen)
    else:
        found = list(chosen)
        source.files = files
        lines = _messages(reader, arguments.rollout, found)
    end = None if arguments.limit is None else arguments.skip + arguments.limit
    printed = 0
    for line in islice(lines, arguments.skip, end):
        print(json.dumps(line))
        printed += 1
    notes = [*([] if printed else [_none(arguments, found)]), *said_of(tables)]
    if source.others:
        notes.append(f"the newest run is shown; choose with --run: {', '.join(source.others[:_RUNS_NAMED])}")
    notes += source.remarks
    if unreadable := sentences.unreadable(reader.problems):
        notes.append(unreadable)
    say("trajectories", notes)
    return 0


def _none(arguments: argparse.Namespace, found: list[Row]) -> str:
    """Say why no line is printed; ``found``: the rows of the rollout that was asked for."""
    of = [f"sample {arguments.sample}"] if arguments.sample else []
    of += [] if arguments.step is None else [f"step {arguments.step}"]
    if arguments.rollout is not None and not found:
        return _NO_ROLLOUT.format(" in ".join([arguments.rollout, *of]))
    if arguments.skip or arguments.limit == 0:
        return "no line is left between --skip and --limit"
    if arguments.rollout is not None:
        return _NO_TEXT.format(arguments.rollout)
    return f"this run has none of {' in '.join(of)}" if of else _NONE


_CHOSEN = """
SELECT sample.*, rank FROM sample JOIN process USING (process)
WHERE (?1 = '' OR substr(sample_id, 1, length(?1)) = ?1) AND (?2 IS NULL OR step = ?2) AND (?3 IS NULL OR id = ?3)
ORDER BY time, sample"""


def _rows(reader: Reader, tables: RunTables, arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield the samples that were asked for, with what was said of them later."""
    for record in reader.records():
        tables.add(record)
    tables.settle()
    tables.index_scores()
    return tables.samples(_CHOSEN, arguments.sample, arguments.step, arguments.rollout)


def _messages(reader: Reader, rollout: str, found: list[Row]) -> Iterator[dict[str, object]]:
    """Yield the messages of each rollout with this id: from the spans of its trace, or a trainer's chosen sample."""
    from otel_rl.report.subjects.trajectories.conversations import of_spans  # noqa: PLC0415 - needs the extra

    for row in found:
        trace = row.get(attributes.RL_ROLLOUT_TRACE_ID)
        if isinstance(trace, str):
            yield from _lines(row.iteration, of_spans(reader.traces({trace}, reader.problems)))
    steps = {row.iteration for row in found}
    for log in reader.events(events.RL_TRAJECTORY_CONTENT.name):
        step = log.attributes.get(attributes.RL_LOOP_ITERATION)
        if log.attributes.get(attributes.RL_ROLLOUT_ID) == rollout and step in steps:
            yield from _lines(step, by_call(messages_of(log.attributes), log.attributes))


def _lines(step: object, messages: Sequence[Message]) -> Iterator[dict[str, object]]:
    for number, message in enumerate(messages):
        of_call = {key: value for key, value in message.call._asdict().items() if value not in ("", None)}
        said = {"role": message.role, "text": message.text}
        yield {"step": step, "message": number, "of": len(messages), **of_call, **said}
