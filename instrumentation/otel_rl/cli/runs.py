"""``otel-rl runs [DIR] [--limit N] [--json]``."""

from __future__ import annotations

import json
import time
from itertools import zip_longest
from typing import TYPE_CHECKING

from otel_rl.cli import run_directory, say, terminal
from otel_rl.report.core import human
from otel_rl.store.reader.run_list import list_runs

if TYPE_CHECKING:
    import argparse

    from otel_rl.store.reader.run_rows import RunRow
_DESCRIPTION = """\
List the runs of a folder, the newest first: program, state, last sign, last step, reward, duration, and below them what
a run died of and the worst of what was found. It reads no run as a whole: summaries that `otel-rl report` has left,
manifests, and the ends of files."""

_EPILOG = """\
States are those of the report: running, in order, stopped, failed, killed (its parent saw the signal), gone (no end is
recorded and it does not run), not known (no end is recorded, and it ran on another machine: see its last sign). Where a
run has no reward, its loss is shown. What was found comes from `otel-rl report`, else from the rules that were
judged while it ran. With --json there is a line for each run; docs/runs.md has the keys.

Exit status: 0 the runs are listed; 2 there is none, or the folder cannot be read."""

_LIMIT = 50
#: Most columns of an id and of a program.
_ID, _PROGRAM = 40, 24
_GAP = "  "
_NUMBERS = ("LAST SIGN", "STEP", "DURATION")
_TITLES = ("RUN", "PROGRAM", "STATE", "LAST SIGN", "STEP", "DURATION", "REWARD")
_SHOWN = ("critical", "warning")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    run_directory.configure_folder(parser)
    parser.add_argument(
        "--limit", metavar="N", type=int, default=_LIMIT, help="list so many; 0: all (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each run")


def run(arguments: argparse.Namespace) -> int:
    """Print the list."""
    limit = arguments.limit if arguments.limit > 0 else None
    rows = list_runs(run_directory.choose_run_directory(arguments), limit and limit + 1)
    shown = rows[:limit]
    for line in map(_json, shown) if arguments.json else _table(shown, terminal.columns()):
        print(line)
    if len(shown) < len(rows):
        say("runs", [f"the newest {limit} runs; --limit 0 lists all"])
    return 0


def _json(row: RunRow) -> str:
    return json.dumps(row.as_json())


def _table(rows: list[RunRow], columns: int | None) -> list[str]:
    """Return the lines of the table; those below a run are indented."""
    cells = [_cells(row) for row in rows]
    widths = [max(map(terminal.width, column)) for column in zip_longest(_TITLES, *cells)]
    lines = [_line(_TITLES, widths)]
    for row, cell in zip(rows, cells, strict=True):
        lines += [_line(cell, widths), *(_GAP + note for note in _notes(row))]
    return [terminal.cut(line.rstrip(), columns) for line in lines]


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    return _GAP.join(
        terminal.pad(cell, size, right=title in _NUMBERS)
        for title, cell, size in zip(_TITLES, cells, widths, strict=True)
    )


def _cells(row: RunRow) -> tuple[str, ...]:

    ago = max(time.time_ns() - row.last_sign, 0) / 1e9
    return (
        terminal.cut(terminal.one_line(row.id), _ID),
        terminal.cut(terminal.one_line(row.program), _PROGRAM),
        terminal.one_line(row.state),
        f"{human.duration(ago)} ago" if row.last_sign else human.UNKNOWN,
        human.number(row.step if row.step is not None else row.steps),
        human.duration(row.seconds),
        terminal.one_line(_reward(row)),
    )


def _reward(row: RunRow) -> str:

    value, name = row.shown, "" if row.reward is not None else "loss "
    if value is None or value.last is None:
        return human.UNKNOWN
    further = [f"step {row.other_step}"] if row.other_step is not None else []
    further += [f"best {human.short_number(value.best)}"] if value.best not in (None, value.last) else []
    said = f" ({', '.join(further)})" if further else ""
    return f"{name}{human.short_number(value.last)}{said}"


def _notes(row: RunRow) -> list[str]:
    """Return what is said below a run: what it died of and when, the worst finding, what could not be read."""
    failure = f"{human.moment(row.failed)}: {row.failure}" if row.failure else ""
    is_said = row.code == "ended" and bool(row.failure)
    older = ", as the report found it earlier" if row.is_outdated else ""
    found = f"{row.severity}{older}: {row.finding}" if row.severity in _SHOWN and not is_said else ""
    return [terminal.one_line(note) for note in (failure, row.doing, found, row.remark) if note]
