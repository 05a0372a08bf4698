"""The essentials of a run in a terminal, refreshed in place: ``otel-rl top``."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from otel_rl.live import essentials, hanging_calls
from otel_rl.live.follower import Follower, RenderingError
from otel_rl.live.liveness import Liveness
from otel_rl.live.pace import Pace
from otel_rl.live.standing import ProcessState, RecordedStatus, Standing
from otel_rl.report.core import human
from otel_rl.report.core.colours import colour_of
from otel_rl.report.core.statistics import is_flat
from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Seconds between two frames, of reading in each, and between two looks at the keys.
_FRAME, _READ, _KEY = 1.0, 0.4, 0.25
_BARS = "▁▂▃▄▅▆▇█"
#: Characters of a phase in the bar, so that it does without colour too.
_FILLS = "█▓▒░#=+-"
_SPARK = 24
_NO_BREAK = "\N{NO-BREAK SPACE}"
#: Lines that are not tables: title, steps, bar, legend, and a title for each table.
_FIXED_LINES = 9
_TONES = {"critical": "bold red", "warning": "yellow", "notice": "dim"}
_STATES = {"running": "green", "stopped": "bold red", "gone": "bold red"}


@dataclass
class View:
    """What is known of a run at one moment."""

    run: str
    standing: Standing = field(default_factory=Standing)
    content: dict[str, Any] = field(default_factory=dict)
    trouble: str = ""
    left: int = 0


class RunView:
    """Keeps a :class:`View` current.

    Raises:
        UnusableInput: there is no such run.
    """

    def __init__(self, directory: Path, run: str | None, ring_directory: Path | None = None) -> None:
        self._follower = Follower(directory, run)
        source = self._follower.source
        self._liveness = Liveness(source.path, source.run_id or source.path.name, ring_directory)
        self._pace = Pace()
        self._recorded = RecordedStatus()
        self._read: tuple[int, dict[str, tuple[object, ...]]] = -1, {}
        self.view = View(source.run_id or source.path.name)

    def refresh(self, *, is_whole: bool = False) -> None:
        """Look at the processes and read on; everything, where ``is_whole``."""
        view = self.view
        try:
            view.standing = self._liveness.look()
            if not view.standing.processes:
                view.standing = self._recorded.standing(time.monotonic())
            progress = self._follower.poll(_READ)
            while is_whole and progress.left:
                progress = self._follower.poll(_READ)
        except (OSError, UnusableInput) as error:
            view.trouble = f"the run cannot be read: {error}"
            return
        if self._follower.is_gone:
            view.trouble = "the folder of the run was deleted or moved"
            return
        view.trouble, view.left = "", progress.left
        if (progress.read, self._follower.ends) != self._read:
            self._read = progress.read, self._follower.ends
            self._pace.has_read(time.monotonic())
        if is_whole or self._pace.is_due(time.monotonic(), is_urgent=False, is_watched=True):
            self._render()

    def _render(self) -> None:
        try:
            content, seconds = self._follower.render(essentials.build)
            self.view.content = json.loads(content)
            self._recorded = RecordedStatus(self.view.content["recorded"], time.monotonic())
        except RenderingError as error:
            self.view.trouble, seconds = f"the findings could not be made: {str(error).splitlines()[0]}", error.seconds
        self._pace.rendered(time.monotonic(), seconds)


def print_once(directory: Path, run: str | None) -> None:
    """Print one frame of all that was read, without colour or control codes.

    Raises:
        UnusableInput: there is no such run.
    """
    shown = RunView(directory, run)
    shown.refresh(is_whole=True)
    # Who is gone is known with the second look only.
    time.sleep(_FRAME)
    shown.refresh(is_whole=True)
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and columns != "0" else 80
    console = Console(width=width, no_color=True, highlight=False, force_terminal=False, emoji=False)
    console.print(frame(shown.view, console.width, None))


def follow(directory: Path, run: str | None) -> None:
    """Show the run until the user presses q.

    Raises:
        UnusableInput: there is no such run.
    """
    shown = RunView(directory, run)
    console = Console(highlight=False, emoji=False)
    with _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            began = time.monotonic()
            shown.refresh()
            live.update(frame(shown.view, console.width, console.height), refresh=True)
            while (left := _FRAME - (time.monotonic() - began)) > 0:
                if _pressed(min(left, _KEY)) in ("q", "Q"):
                    return


@contextmanager
def _keys() -> Iterator[None]:
    """Give keys without Enter, and the terminal as it was afterwards."""
    import termios  # noqa: PLC0415 - not everywhere
    import tty  # noqa: PLC0415 - as above

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _pressed(seconds: float) -> str:
    with suppress(OSError, ValueError):
        readable, _, _ = select.select([sys.stdin], [], [], seconds)
        if readable:
            # Nothing to read is the end of the terminal.
            return os.read(sys.stdin.fileno(), 1).decode(errors="replace") or "q"
    return ""


# -- the frame ---------------------------------------------------------------------------------------------------------


def frame(view: View, width: int, height: int | None) -> Group:
    """Return the frame for a terminal of this size; None: of any height."""
    findings = _findings(view)
    values, signs = view.content.get("values", []), view.standing.processes
    room = [len(findings), len(signs), len(values)]
    if height is not None:
        room = _shared(height - _FIXED_LINES, room)
    lines: list[Text | Table] = [*_head(view), *_phase_bar(view, width)]
    lines += _titled("Values", _value_table(values[: room[2]]), len(values) - room[2])
    lines += _titled("Processes", _process_table(view, room[1]), len(signs) - room[1])
    lines.append(Text("Findings", style="bold"))
    lines += findings[: room[0]] or [Text(_clean(view.content.get("verdict") or "none yet"), style="dim")]
    if len(findings) > room[0]:
        lines.append(Text(f"and {len(findings) - room[0]} more", style="dim"))
    if height is not None:
        lines.append(Text("q: quit", style="dim"))
        for line in lines:
            if isinstance(line, Text):
                line.truncate(width, overflow="ellipsis")
                line.no_wrap = True
    return Group(*lines)


def _shared(lines: int, wanted: list[int]) -> list[int]:
    """Share the lines among the lists: one line at a time, the first list first."""
    shares = [0] * len(wanted)
    while sum(shares) < lines and shares != wanted:
        for place, number in enumerate(wanted):
            if shares[place] < number and sum(shares) < lines:
                shares[place] += 1
    return shares


def _head(view: View) -> list[Text]:
    state = view.standing.state
    content = view.content
    title = Text.assemble(
        (_clean(view.run), "bold"),
        "  ",
        (state, _STATES.get(state, "")),
        "  ",
        (_clean(content.get("program", "")), "dim"),
    )
    step = view.standing.last_step(content.get("last_step"))
    phases = content.get("phases")
    parts = [f"step {human.number(step)}" if step is not None else "no step yet"]
    parts += [f"{human.duration(_step_seconds(content))} a step"] if phases else []
    ranks = sum(sign.rank is not None for sign in view.standing.processes)
    parts += [f"{ranks} of {content.get('world_size') or ranks} ranks"] if ranks else []
    parts += [f"{human.size(view.left)} left to read"] if view.left else []
    lines = [title, Text("  ".join(parts))]
    return [*lines, Text(_clean(view.trouble), style="bold red")] if view.trouble else lines


def _step_seconds(content: dict[str, Any]) -> float:
    """Return the length of a step: phases that run at once take a part of it together."""
    return float(sum(content["phases"].values()) - content.get("phases_at_once", 0.0))


def _phase_bar(view: View, width: int) -> list[Text]:
    phases: dict[str, float] = view.content.get("phases", {})
    whole = sum(phases.values())
    if not whole:
        return []
    bar, legend, step = Text(), Text(), _step_seconds(view.content)
    for place, (phase, seconds) in enumerate(phases.items()):
        fill, colour = _FILLS[place % len(_FILLS)], colour_of(phase)
        bar.append(fill * round(seconds / whole * width), style=colour)
        legend.append(f"{fill}{_NO_BREAK}", style=colour)
        words = "in no phase" if phase == "uncovered" else _clean(phase)
        entry = f"{words} {human.duration(seconds)} ({human.percent(seconds / (step or whole))})"
        legend.append(f"{entry.replace(' ', _NO_BREAK)}  ")
    bar.truncate(width)
    return [bar, legend]


def _titled(title: str, table: Table, left: int) -> list[Text | Table]:
    if not table.row_count:
        return []
    more = f" (and {left} more)" if left > 0 else ""
    return [Text(f"{title}{more}", style="bold"), table]


def _table(*columns: str) -> Table:
    table = Table(box=None, show_header=bool(columns), pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    return table


def _value_table(values: list[dict[str, Any]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    for value in values:
        curve = sparkline(value["curve"])
        last = value["last"] if isinstance(value["last"], str) else human.number(value["last"])
        table.add_row(Text(_clean(value["title"])), last, Text(curve, style="blue"))
    return table


def _process_table(view: View, most: int) -> Table:
    table = _table("process", "state", "step", "phase", "last sign", "no progress")
    for sign in view.standing.processes[:most]:
        still = sign.still if sign.is_alive else None
        table.add_row(
            Text(_clean(sign.label)),
            Text(sign.state.value, style=_STATES.get(sign.state.value, "")),
            "" if sign.step is None else human.number(sign.step),
            Text(_clean(sign.phase) if sign.state is not ProcessState.ENDED else ""),
            _ago(sign.silent),
            human.duration(still) if still is not None and still > 2 else "",  # noqa: PLR2004 - worth a word
        )
    return table


def _ago(seconds: float | None) -> str:
    return human.UNKNOWN if seconds is None else f"{human.duration(round(seconds, 1))} ago"


def _findings(view: View) -> list[Text]:
    now = view.standing.findings
    said = {"running"} | ({"ended"} if any(finding.code in ("gone", "ended") for finding in now) else set())
    # A call that hangs now is said with who is late for it.
    calls = [finding for finding in now if finding.code == hanging_calls.CODE]
    lines = [
        (finding.severity.value, " ".join([finding.text, *(finding.evidence[:1] if finding in calls else ())]))
        for finding in now
    ]
    lines += [
        (finding["severity"], finding["text"])
        for finding in view.content.get("findings", ())
        if finding["code"] not in said
        and not (finding["code"] == hanging_calls.CODE and hanging_calls.are_about(calls, finding["subject"]))
    ]
    return [Text(_clean(f"{severity}: {text}"), style=_TONES[severity]) for severity, text in lines]


def sparkline(values: list[float]) -> str:
    """Return the values as bars of one line."""
    finite = [value for value in values if value == value and abs(value) != float("inf")][-_SPARK:]  # noqa: PLR0124
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    scale = 0.0 if is_flat(finite) else (len(_BARS) - 1) / (high - low)
    return "".join(_BARS[round((value - low) * scale)] for value in finite)


def _clean(text: str) -> str:
    """Return text of the run without what a terminal would take for a command."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in str(text))
