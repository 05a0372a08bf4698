"""Parts of the run that take long: rendezvous, what loads, the wait for a batch; and whether anything moves in them.

Such a part waits for others, for a disk, or works: it is told once, as a wait. It may hang where nothing moves: neither
the process nor its children use a CPU, or read and write.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry._logs import SeverityNumber

from otel_rl.core.guard import guard
from otel_rl.process import process_identity
from otel_rl.ranks.watchdog import call_places, monotonic, reports, show_gauge, stacks
from otel_rl.semconv import attributes, events
from otel_rl.telemetry import deferral, progress, redaction
from otel_rl.telemetry.progress import CallBegin
from otel_rl.telemetry.scope import Scope
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.telemetry.progress import OpenPart

_scope = Scope("process")
#: Share of a core, and bytes per second, from which on something moves: who polls uses less.
_CPU, _BYTES = 0.1, 65_536
#: Most children that are looked at, as workers of data loaders.
_CHILDREN = 64
_TICK = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME = 11, 12
#: The variables that name the place of a rendezvous.
_MASTER = "MASTER_ADDR", "MASTER_PORT"


class _Spent(NamedTuple):
    """What the process and its children have used: seconds of CPU, and bytes read and written."""

    cpu: float
    bytes: int


class PartWatch:
    """Watches the open parts of one process; for the watchdog's thread."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        #: The part that was looked at, its work at that look, and for how many seconds nothing has moved in it.
        self._part: OpenPart | None = None
        self._work = _Spent(0.0, 0)
        self._still = 0.0

    @property
    def sees_hang(self) -> bool:
        """Whether the part has been told, and nothing moves in it."""
        return self._part is not None and self._part.told_at > 0 and self._still >= self._limit

    def look(self, now: float, passed: float) -> None:
        """Tell of the innermost part where it is open for longer than the limit; ``passed`` s since the last look."""
        part = next(reversed(progress.open_parts()), None)
        if part is None or now - part.began < self._limit / 2:
            self._part = None
            return
        work = _spent()
        if part is not self._part:
            # What was before it was looked at is taken to be as what follows.
            self._part, self._still = part, now - part.began
        elif work.cpu - self._work.cpu >= _CPU * passed or work.bytes - self._work.bytes >= _BYTES * passed:
            self._still = 0.0
        else:
            self._still += passed
        self._work = work
        if not part.told_at and now - part.began >= self._limit:
            part.told_at = now - part.began
            _report(part, self._limit, moves=self._still < self._limit)


def words(part: OpenPart) -> str:
    """Return where it waits and for whom, for a sentence: ``in init_process_group (world size 2, 10.0.0.1:29500)``."""
    address, port = (os.environ.get(name, "") for name in _MASTER)
    text = f"in {part.words}"
    if part.name == "rendezvous" and text.endswith(")") and address:
        text = f"{text[:-1]}, {address}:{port})"
    return text


def over(part: OpenPart, *, failed: bool) -> None:
    """Report the end of a part that was told."""
    seconds = monotonic() - part.began
    how = "ended without success" if failed else "is over"
    text = f"{part.words} {how} after {seconds:.0f} s"
    with guard("watchdog.part_over"):
        _scope.event(
            events.RL_WAIT_END,
            body=text,
            attributes={
                attributes.RL_WAIT_FOR: part.name,
                attributes.RL_HANG_DURATION: seconds,
                attributes.RL_RANK: process_identity.current().rank,
            },
        )
    reports.write_line(f"otel-rl: {reports.who()}: {text}")


def _report(part: OpenPart, limit: float, *, moves: bool) -> None:
    captured = stacks.capture()
    last = steps.last_iteration()
    when = "before the first step" if last is None else f"after step {last}"
    place = call_places.find_place(CallBegin(part.began, part.thread, None, None))
    at = f", at line {place.line} of {place.file}" if place is not None else ""
    still = "" if moves else "; nothing moves (CPU, bytes), it may hang"
    text = f"{when}, {words(part)} for {part.told_at:.0f} s{at}{still}"
    with guard("watchdog.part"):
        _scope.event(
            events.RL_WAIT,
            body=redaction.text(f"{text}\n{captured.text}", "logs"),
            severity=SeverityNumber.WARN,
            attributes={
                attributes.RL_WAIT_FOR: part.name,
                attributes.RL_WAIT_MOVES: moves,
                attributes.RL_HANG_DURATION: part.told_at,
                attributes.RL_HANG_LIMIT: limit,
                attributes.RL_RANK: process_identity.current().rank,
                attributes.RL_LOOP_ITERATION: last,
            },
        )
        if not moves:
            show_gauge()
        deferral.hand_over()
    reports.write_line(f"otel-rl: {reports.who()} waits: {redaction.text(text, 'logs')}")


def _spent() -> _Spent:
    """Return what was used so far; without /proc only the CPU of the process itself."""
    spent = os.times()
    cpu, moved = spent.user + spent.system + spent.children_user + spent.children_system, 0
    for pid in ("self", *_children()):
        with suppress(OSError, ValueError, IndexError):
            moved += _bytes(pid)
            if pid != "self":
                fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
                cpu += (int(fields[_UTIME]) + int(fields[_STIME])) / _TICK
    return _Spent(cpu, moved)


def _bytes(pid: str) -> int:
    lines = Path(f"/proc/{pid}/io").read_bytes().split(b"\n")
    # By calls, and by the disk: a file that is mapped is read without a call.
    return sum(int(lines[place].rpartition(b" ")[2]) for place in (0, 1, 4, 5))


def _children() -> Iterator[str]:
    with suppress(OSError):
        for task in sorted(os.listdir("/proc/self/task"))[:_CHILDREN]:  # noqa: PTH208 - names are enough
            with suppress(OSError):
                yield from Path(f"/proc/self/task/{task}/children").read_text(encoding="ascii").split()[:_CHILDREN]
