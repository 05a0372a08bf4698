"""``otel-rl explain [DIR] [--run ID] [--finding N] [--json]``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from otel_rl.cli import complain, run_directory, say, terminal
from otel_rl.report.core import human

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_DESCRIPTION = """\
Print the findings of a run, what follows from each, and what proves it: the values around its onset, and the calls,
samples and steps there with the ids of their traces."""

_EPILOG = """\
The findings are those of `otel-rl report`, in the same order. Values are those of the first rank concerned. Records are
from the step of the onset and the three after it: failed and slow ones first, at most five of a kind. The same run
gives the same text.

Exit status: 0 it is printed, also where nothing was found; 2 there is nothing to read, or no finding of that number."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    run_directory.configure(parser)
    parser.add_argument("--finding", metavar="N", type=int, help="only the one of this number; the first one is 1")
    parser.add_argument("--json", action="store_true", help="for programs: as `otel-rl report --json`, with the proof")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings with their proof."""
    explained = _explained(arguments)
    chosen, number = list(enumerate(explained["findings"], 1)), arguments.finding
    if number is not None and not 1 <= number <= len(chosen):
        return complain("explain", f"--finding {number}: the run has {human.amount(len(chosen), 'finding')}")
    if number is not None:
        chosen = chosen[number - 1 : number]
    if arguments.json:
        print(json.dumps({**explained, "findings": [finding for _, finding in chosen]}, indent=2))
        return 0
    if explained["verdict"] is not None and number is None:
        print(terminal.clean(explained["verdict"]))
    for place, finding in chosen:
        print("\n".join(map(terminal.clean, _lines(finding, str(place)))))
    return 0


def _explained(arguments: argparse.Namespace) -> dict[str, Any]:
    from otel_rl.report import proof, subjects  # noqa: PLC0415 - only this command and `report` need the reader
    from otel_rl.report.core import output, reading  # noqa: PLC0415 - as above
    from otel_rl.report.core.collected import Collected  # noqa: PLC0415 - as above
    from otel_rl.report.subjects import overview  # noqa: PLC0415 - as above
    from otel_rl.store.reader import Reader, find_run  # noqa: PLC0415 - as above

    source = find_run(run_directory.choose_run_directory(arguments), arguments.run)
    with reading.bar("reading", source.size, "B") as advance:
        collected = Collected(Reader(source), subjects.load()).read(advance)
    say("explain", map(terminal.clean, reading.notes_of(source, collected.reader)))
    return output.as_json(overview.examine(collected), lambda finding: proof.records(collected, finding))


def _lines(finding: dict[str, Any], number: str) -> Iterator[str]:
    """Yield the lines of a finding, then those of what follows from it."""
    indent = "   " * number.count(".")
    yield f"{indent}{number}. {finding['severity']}: {finding['text']}"
    indent += "   "
    for sentence in (*finding["evidence"], *(f"Look at: {where}" for where in finding["look_at"])):
        yield f"{indent}{sentence}"
    for x, value in finding["points"]:
        at = human.clock(x) if finding["onset_step"] is None else f"step {x}"
        yield f"{indent}{at:<12} {value}{'  <- since here' if x == finding['onset_step'] else ''}"
    for row in finding["records"]:
        yield f"{indent}{_words(row)}"
    for place, symptom in enumerate(finding["symptoms"], 1):
        yield from _lines(symptom, f"{number}.{place}")


def _words(row: dict[str, Any]) -> str:
    shown = {key: value for key, value in row.items() if key not in ("record", "step")}
    texts = (
        human.duration(value) if key == "seconds" else f"{key} {human.number(value) if key == 'reward' else value}"
        for key, value in shown.items()
    )
    step, record = row["step"], row["record"]
    what = f"step {step}" if record == "step" else f"{record} in step {step}"
    return f"{what}: {', '.join(texts)}"
