"""The list of calls that have been open for long, which outlives this process and which readers join with others."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.core import settings
from otel_rl.flight_recorder import copies, files, waiting
from otel_rl.flight_recorder.waiting import WaitingCall, WaitingCalls
from otel_rl.process import lifetime, process_identity
from otel_rl.ranks.watchdog import call_places, call_reports, monotonic
from otel_rl.semconv import attributes
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Collection

    from otel_rl.core.code_places import RunningFunction
    from otel_rl.telemetry.progress import CallBegin, CallState, OpenCall

_NANOSECONDS = 1_000_000_000


class LongCall(NamedTuple):
    """A call that has been open for long: ``seconds`` since its begin, or its last sign."""

    call: OpenCall
    begin: CallBegin
    state: CallState
    seconds: float


class CallList:
    """Of this process; the file is there from the first such call on, so that it is newer than its copy."""

    def __init__(self) -> None:
        #: Of the calls that are listed: which, which of them hang, and since when.
        self._listed: tuple[Any, ...] = ()
        #: Where the listed calls are, by id, begin, and whether they hang.
        self._places: dict[tuple[int, float, bool], RunningFunction | None] = {}
        self._path: Path | None = None
        self._ancestors: tuple[int, ...] = ()

    def write(self, long: list[LongCall], hanging: set[int], step_threads: Collection[int] = ()) -> None:
        """List the calls, where they are others than before; ``hanging`` are the ids of those beyond their limits.

        ``step_threads`` are the threads in which the open steps have begun.
        """
        shown = sorted(long, key=lambda one: id(one.call) not in hanging)[: waiting.MOST]
        listed = (len(long), *((id(one.call), one.begin.moment, id(one.call) in hanging) for one in shown))
        if (not long and self._path is None) or settings.current().ring != "on":
            return
        # A full or read-only file system has no list; the next change tries again.
        with suppress(OSError):
            if listed != self._listed:
                self._listed = listed
                self._replace(shown, len(long) - len(shown), hanging, step_threads)
            elif long and self._path is not None:
                waiting.stamp(self._path, time.time_ns())

    def _replace(self, shown: list[LongCall], more: int, hanging: set[int], step_threads: Collection[int]) -> None:
        who, own = process_identity.current(), lifetime.own()
        if self._path is None:
            folder = Path(settings.current().ring_directory).expanduser()
            self._path = folder / f"{files.name(who.id, socket.gethostname(), who.rank)}{files.LISTS_SUFFIX}"
            self._ancestors = lifetime.ancestors()
            # A process without steps makes no ring, with which old files go.
            if who.local_rank in (0, None):
                files.remove_old_lists(folder)
        self._find_places(shown, hanging)
        calls = tuple(
            _entry(
                one,
                self._places[id(one.call), one.begin.moment, id(one.call) in hanging],
                hangs=id(one.call) in hanging,
                in_step=one.begin.thread in step_threads,
            )
            for one in shown
        )
        now = time.time_ns()
        content = WaitingCalls(own, who.id or "", socket.gethostname(), who.rank, self._ancestors, now, more, calls)
        waiting.write(self._path, content)
        copies.waiting_list = os.getpid(), self._path

    def _find_places(self, shown: list[LongCall], hanging: set[int]) -> None:
        """Look up where calls are that were not listed before, or hang by now; what is known of the others stays."""
        before, self._places = self._places, {}
        keys = {(id(one.call), one.begin.moment, id(one.call) in hanging): one.begin for one in shown}
        # Once for all calls: it takes as long as there are threads.
        threads = call_places.current_frames() if keys.keys() - before.keys() else {}
        try:
            for key, begin in keys.items():
                self._places[key] = before[key] if key in before else call_places.find_place(begin, threads)
        finally:
            # Our own frame is among them: together they would hold what the program has dropped.
            del threads


def _entry(one: LongCall, place: RunningFunction | None, *, hangs: bool, in_step: bool) -> WaitingCall:
    state = one.state
    trace, span = call_reports.span_ids(state.span)
    step = steps.where().step
    tool = one.begin.tool.state() if one.begin.tool is not None else None
    wall = time.time_ns() - round((monotonic() - one.begin.moment) * _NANOSECONDS)
    port = state.values.get(attributes.SERVER_PORT)
    return WaitingCall(
        kind=state.kind,
        name=state.name,
        tool=tool.name if tool is not None else "",
        rollout=call_reports.rollout_of(state.trajectory) or "",
        iteration=step.iteration if step is not None else 0,
        trace=f"{trace:032x}" if trace else "",
        span=f"{span:016x}" if span else "",
        parent=f"{state.parent:016x}" if state.parent else "",
        address=str(state.values.get(attributes.SERVER_ADDRESS) or ""),
        port=port if isinstance(port, int) else 0,
        began=wall,
        since=time.time_ns() - round(one.seconds * _NANOSECONDS),
        function=place.function if place is not None else "",
        file=place.file if place is not None else "",
        line=place.line if place is not None else 0,
        hangs=hangs,
        in_step=in_step,
    )
