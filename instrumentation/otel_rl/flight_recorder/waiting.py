"""Calls that have been open for long, in a small file beside the ring: it outlives a kill, as that does.

The ring says that a tool or model call is open. This says for which rollout, in which function, at which server, and
below which span, in processes without a ring too: so readers follow a wait from one process to the next. The watchdog
writes it, whole, when the list has changed; while it has calls it stamps the list each time it looks, so that readers
know until when the calls were open.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import remove_file, replace_file
from otel_rl.flight_recorder import reader
from otel_rl.process.lifetime import Lifetime
from otel_rl.semconv.attributes import RlPhaseValues as Phase

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

VERSION = 1
#: Most calls of one list: those that hang, then the longest ones.
MOST = 64
_MOST_BYTES = 256 * 1024
_LONGEST_TEXT = 300
_MODE = 0o600
#: What the file begins with, before its stamp, which has always as many characters and can so be replaced.
_BEFORE_STAMP, _DIGITS = '{"seen": ', 19
#: Phases of a step whose work is calls. In others, as in `train`, a call may be of a rollout that is made ahead.
_OF_CALLS = frozenset({Phase.SAMPLE, Phase.GENERATE, "rollout", Phase.REWARD, Phase.EVALUATE})


@dataclass(frozen=True)
class WaitingCall:
    """A call that has been open for long; an empty text or a 0 stands for what is not known."""

    #: One of ``RlCallKindValues``.
    kind: str = ""
    name: str = ""
    #: The tool that it is inside of.
    tool: str = ""
    rollout: str = ""
    iteration: int = 0
    #: Ids in hexadecimal digits; ``parent`` may be a span of another process.
    trace: str = ""
    span: str = ""
    parent: str = ""
    address: str = ""
    port: int = 0
    #: Wall clocks in ns: of its begin, and of its last sign.
    began: int = 0
    since: int = 0
    function: str = ""
    file: str = ""
    line: int = 0
    #: It is longer than its limit.
    hangs: bool = False
    #: The thread of the open step has begun it.
    in_step: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """What it is known by from one writing of the list to the next."""
        return self.kind, self.name, self.rollout, self.span


_DEFAULTS = asdict(WaitingCall())


@dataclass(frozen=True)
class WaitingCalls:
    """The list of one process."""

    lifetime: Lifetime
    run_id: str
    host: str
    rank: int | None
    #: Pids of the processes above it, the parent first, as of the begin of the list.
    ancestors: tuple[int, ...] = ()
    #: Wall clock (ns).
    written: int = 0
    #: Calls that had no room.
    more: int = 0
    calls: tuple[WaitingCall, ...] = ()
    path: Path | None = field(default=None, compare=False)
    #: Wall clock (ns) of the last look at which the list was still true.
    seen: int = field(default=0, compare=False)

    @property
    def label(self) -> str:
        """Its name in sentences."""
        return f"rank {self.rank}" if self.rank is not None else f"process {self.lifetime.pid}"


def is_waited_for(phase: str | None, *, in_step: bool) -> bool:
    """Return whether a step in ``phase``, the innermost, waits for a call; ``in_step``: its thread has begun it."""
    return in_step or not phase or phase in _OF_CALLS


def write(path: Path, calls: WaitingCalls) -> None:
    """Replace the list in one step.

    Raises:
        OSError: where it cannot be written.
    """
    # Not asdict, which copies each text of each call.
    content = {**vars(calls), "calls": [vars(one) for one in calls.calls], "version": VERSION, "path": None}
    del content["seen"]
    stamped = f"{_BEFORE_STAMP}{max(calls.seen, calls.written):{_DIGITS}d}, {json.dumps(content)[1:]}"
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    remove_file(temporary)
    # Nobody else may have put a file or a link there.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(stamped)
        replace_file(temporary, path)
    except OSError:
        remove_file(temporary)
        raise


def stamp(path: Path, moment: int) -> None:
    """Note in the list at ``path``, which this process has written, that it is still true at ``moment`` (ns).

    Raises:
        OSError: where it cannot be written.
    """
    digits = f"{moment:{_DIGITS}d}".encode()
    if len(digits) != _DIGITS:
        # A clock that is wrong by centuries.
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.pwrite(descriptor, digits, len(_BEFORE_STAMP))
    finally:
        os.close(descriptor)


def read_all(paths: Iterable[Path], owners: Collection[int]) -> list[WaitingCalls]:
    """Read the lists, of each process the one that was written last; what is none is left out."""
    newest: dict[tuple[str, Lifetime], WaitingCalls] = {}
    for path in paths:
        with suppress(reader.UnreadableRing, ValueError, TypeError, KeyError):
            found = _parsed(path, reader.content_of(path, owners, _MOST_BYTES))
            key = found.host, found.lifetime
            if key not in newest or (found.written, found.seen) >= (newest[key].written, newest[key].seen):
                newest[key] = found
    return list(newest.values())


def _parsed(path: Path, data: bytes) -> WaitingCalls:
    content = json.loads(data)
    if content["version"] != VERSION:
        raise ValueError(path)
    boot, *numbers = content["lifetime"]
    return WaitingCalls(
        lifetime=Lifetime(str(boot), *map(int, numbers)),
        run_id=_text(content["run_id"]),
        host=_text(content["host"]),
        rank=None if content["rank"] is None else int(content["rank"]),
        ancestors=tuple(int(pid) for pid in content["ancestors"]),
        written=int(content["written"]),
        seen=max(int(content["seen"]), int(content["written"])),
        more=int(content["more"]),
        calls=tuple(_call(one) for one in content["calls"][:MOST]),
        path=path,
    )


def _call(content: dict[str, Any]) -> WaitingCall:
    values: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        value = content.get(name, default)
        values[name] = _text(value) if isinstance(default, str) else type(default)(value)
    return WaitingCall(**values)


def _text(value: object) -> str:
    """Return a text that may be shown in a terminal: models make up names of tools."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in str(value)[:_LONGEST_TEXT])
