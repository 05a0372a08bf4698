"""How each process ended, or that it runs: one statement for the findings, the tables and the head of the page."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from otel_rl.process import launch, lifetime
from otel_rl.ranks.postmortem import order
from otel_rl.ranks.postmortem.order import EndBounds
from otel_rl.ranks.postmortem.ranks import GONE, RUNNING
from otel_rl.report.core import human
from otel_rl.report.core.collected import asked_once
from otel_rl.report.subjects.endings import recorded, words
from otel_rl.report.subjects.errors import groups as errors
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader import end_states, uncaught_exceptions
from otel_rl.store.reader.end_states import EndState
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_rl.process.exit_records import Exit
    from otel_rl.ranks.postmortem.ranks import RankState
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.endings.recorded import RunEnd, WorkerEnd
    from otel_rl.store.reader import Process
    from otel_rl.store.reader.uncaught_exceptions import UncaughtException

#: Reasons of Ray for the death of an actor, in words.
_DEATHS = {
    "WORKER_DIED": "Ray says that its process was killed or crashed",
    "NODE_DIED": "Ray lost its node",
    "OOM": "Ray's memory monitor ended it",
    "CREATION_TASK_FAILURE": "its constructor raised",
}
_PLANNED = {
    "RAY_KILL": "ray.kill",
    "OUT_OF_SCOPE": "nothing referred to it any more",
    "REF_DELETED": "nothing referred to it any more",
}
#: Seconds of a wait that nobody told that are worth a warning: the default of a watchdog's limit.
_LONG_WAIT = 60.0
#: Time in ns that an exception takes at most from a wait to the end of the process: data loaders await their workers.
_TO_UNWIND = 60_000_000_000
_RESTARTED = "RESTARTED"
#: Section of the page on how the run ended.
SECTION = "ending"
#: Seconds without a record after which a process without an end, on another machine, is taken for one that has ended.
SILENT = 600.0
#: Steps that a usual length takes; steps and seconds without progress from which a running process is said to stall.
_ENOUGH_STEPS, _STALLED_STEPS, _STALLED = 5, 5, 2.0
#: Most time in ns from the last sign of a worker to the end of its driver where they ended together.
_TOGETHER = 10_000_000_000


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How one process ended; ``words`` follow its name, ``time`` is ns since the epoch."""

    process: Process
    state: EndState
    words: str
    time: int
    exception: UncaughtException | None = None
    exit: Exit | None = None
    iteration: int | None = None
    #: True where it has recorded its end: what it had recorded before was delivered, or is counted.
    is_recorded: bool = False
    #: True of a pool's worker that failed or was killed, which the process of the pool has survived.
    is_survived: bool = False
    #: True of one of those whose pool may wait for its call for good.
    may_be_waited_for: bool = False
    #: Seconds for which it had waited or made no progress when it ended, or by now, for longer than a watchdog's limit.
    waited: float = 0.0
    #: Between which moments it ended, as far as records, heartbeats and its parent tell; None: not at all.
    bounds: EndBounds | None = None

    @property
    def is_bad(self) -> bool:
        """True where it failed, was killed, or is gone."""
        return self.state.is_bad

    @property
    def is_vanished(self) -> bool:
        """True where only the last record says when it ended."""
        has_ended = self.is_bad or self.state is EndState.NOT_KNOWN
        return has_ended and not self.is_recorded and self.exception is None

    @property
    def has_no_time(self) -> bool:
        """True where nobody saw it end, and it has no rank: its last record does not say which of a job ended first."""
        return self.state in (EndState.GONE, EndState.NOT_KNOWN) and self.process.rank is None


def leading(ends: list[ProcessEnd]) -> ProcessEnd | None:
    """Return the end of the process that began first, and has started the others; None where no start is known."""
    known = [end for end in ends if end.process.number("started_unix_nano")]
    return min(known, key=lambda end: end.process.number("started_unix_nano") or 0, default=None)


def first_bad(ends: list[ProcessEnd]) -> ProcessEnd | None:
    """Return the first that failed; of those that are gone without an end the one that had started the others."""
    first, leader = min((end for end in ends if end.is_bad), key=lambda end: end.time, default=None), leading(ends)
    is_leader = first is not None and first.has_no_time and leader is not None and leader.state is EndState.GONE
    if first is None or leader is None or not is_leader or not leader.has_no_time:
        return first
    return first if is_known_before(first.bounds, leader.bounds) else leader


def is_known_before(bounds: EndBounds | None, others: EndBounds | None) -> bool:
    """Return whether an end is known to be the earlier one: a server may begin first, and outlive a trainer."""
    return bounds is not None and others is not None and bounds.is_before(others)


@asked_once
def ends(collected: Collected) -> list[ProcessEnd]:
    """Return how the processes ended, those of attempts that a later one follows left out."""
    return _Ends(collected).of(
        process for process in collected.reader.processes if process.attempt not in collected.superseded
    )


@asked_once
def every_end(collected: Collected) -> dict[str, ProcessEnd]:
    """Return how each process ended, of earlier attempts too, by its key."""
    return {end.process.key: end for end in _Ends(collected).of(collected.reader.processes)}


class _Ends:
    """What is known of the ends, by process."""

    def __init__(self, collected: Collected) -> None:
        self._begun = {log.process.key for log in collected.tables.events(events.RL_RUN_START.name)}
        self._recorded, self._workers = recorded.ended(collected), recorded.workers(collected)
        self._told = recorded.told_waits(collected)
        self._exceptions: dict[str, UncaughtException] = {}
        for exception in errors.uncaught(collected):
            if exception.cell is not None:
                self._add_cell(exception)
            elif not exception.thread:
                self._exceptions.setdefault(exception.process.key, exception)
        postmortem = collected.rings.postmortem
        states = [*postmortem.earlier, *postmortem.ranks] if postmortem is not None else []
        self._rings = {_key_of_ring(state): state for state in states}
        self._by_rank = {state.ring.rank: state for state in states if state.ring.rank is not None}
        self._exits = {end.lifetime: end for end in collected.rings.exits}
        self._by_pid: dict[tuple[str, int], list[Exit]] = {}
        for end in sorted(collected.rings.exits, key=lambda end: end.at_unix_nano):
            self._by_pid.setdefault((end.host, end.lifetime.pid), []).append(end)
        # Steps that are taken from what was logged are over before they are known: they say not when a process failed.
        self._trains = collected.steps.loops > 0 and not collected.steps.logged
        lengths = collected.steps.lengths
        self._usual_step = lengths.quantile(0.5) if lengths.cell.count >= _ENOUGH_STEPS else None

    def _add_cell(self, exception: UncaughtException) -> None:
        """Take the last failure of a notebook's cell for its end, where its kernel has said that no cell came after."""
        end = self._recorded.get(exception.process.key)
        if end is not None and end.error == exception.kind:
            self._exceptions[exception.process.key] = exception

    def of(self, processes: Iterable[Process]) -> list[ProcessEnd]:
        ends = _with_driver([self._after_wait(self._of(process)) for process in processes])
        well = {_place(end.process): end for end in ends if end.state.is_well}
        return [
            self._survived(end, end.exit, well)
            if end.exit is not None and end_states.survived(end.process, end.exit, end.state, well)
            else end
            for end in ends
        ]

    def _after_wait(self, end: ProcessEnd) -> ProcessEnd:
        """Add for how long it had waited, and for what, to the end of a process that somebody stopped, or that runs."""
        if end.state not in (EndState.STOPPED, EndState.RUNNING):
            return end
        ring, told = self._ring(end.process), self._told.get(end.process.key)
        part = ring.waited if ring is not None else None
        if told is not None and told.end and abs(end.time - told.end) > _TO_UNWIND:
            # It went on since.
            told = None
        if part is None and told is None:
            return end
        until = time.time_ns() if end.state is EndState.RUNNING else end.time
        seconds = part.seconds if part is not None else ((told.end or until) - told.begin) / 1e9 if told else 0.0
        waited = seconds if told is not None or seconds >= _LONG_WAIT else 0.0
        if end.state is EndState.RUNNING:
            # Its sentence has it.
            return replace(end, waited=waited)
        length = human.duration(seconds)
        said = f", in {part.name} for {length}" if part is not None else f", after {length} without progress"
        return replace(end, words=f"{end.words}{said}", waited=waited)

    def _survived(self, end: ProcessEnd, seen: Exit, well: Mapping[tuple[str, int], ProcessEnd]) -> ProcessEnd:
        parent = well.get((seen.host, seen.parent)) if seen.loses_calls else None
        waits = (
            parent is not None and parent.state is EndState.RUNNING and not self._began_step(parent, seen.at_unix_nano)
        )
        said = end.words + (end_states.MAY_WAIT if waits else end_states.SURVIVED)
        return replace(end, state=EndState.IN_ORDER, words=said, is_survived=True, may_be_waited_for=waits)

    def _began_step(self, end: ProcessEnd, after: int) -> bool:
        """Return whether the process is known to have begun a step after a moment (ns since the epoch)."""
        ring = self._ring(end.process)
        return ring is not None and ring.step is not None and ring.ring.wall(ring.ring.last_step[1]) > after

    def _of(self, process: Process) -> ProcessEnd:
        if process.imported_from:
            return ProcessEnd(process, *end_states.imported(process), 0, is_recorded=True)
        exception, ring = self._exceptions.get(process.key), self._ring(process)
        seen = ring.exit if ring is not None and ring.exit is not None else self._exit(process)
        if exception is not None:
            return self._of_exception(process, exception, seen, is_recorded=self._has_end(process))
        told = self._workers.get(str(process.identity(names.RL_WORKER_ID)))
        if self._has_end(process):
            end = _of_recorded(process, self._recorded.get(process.key), seen, ring)
            # Ray ends a worker while it shuts down, and says itself what that was.
            is_cut = process.is_of_ray and process.was_ending and process.exit_status is None
            return end if told is None or not is_cut else _as_told(end, told)
        if process.manifest is None and ring is None and seen is None and process.key not in self._begun:
            return ProcessEnd(process, EndState.NOT_RECORDED, "did not record whether it ended", process.last)
        end = _without_end(process, ring, seen, self._usual_step)
        return end if told is None or end.state is not EndState.NOT_RECORDED else _as_told(end, told)

    def _has_end(self, process: Process) -> bool:
        has_ended = process.number("ended_unix_nano") is not None or bool(process.clean_exit)
        return process.key in self._recorded or has_ended

    def _of_exception(
        self, process: Process, exception: UncaughtException, seen: Exit | None, *, is_recorded: bool
    ) -> ProcessEnd:
        # Only a known trainer has steps that nobody marks.
        is_trainer = self._trains or process.identity(names.RL_SYSTEM_NAME) is not None
        state = EndState.STOPPED if exception.is_interrupt else EndState.FAILED
        said = (
            uncaught_exceptions.interrupted(exception)
            if exception.is_interrupt
            else uncaught_exceptions.failed(exception, is_trainer)
        )
        return ProcessEnd(
            process, state, said, exception.time, exception, seen, exception.iteration, is_recorded,
            bounds=EndBounds(exception.time, exception.time),
        )  # fmt: skip

    def _ring(self, process: Process) -> RankState | None:
        key = process.rank, int_or_none(process.identity(names.PROCESS_PID))
        exact = self._rings.get(key)
        if exact is not None or process.rank is None:
            return exact
        # The ring of a rank may be that of a later attempt.
        of_rank = self._by_rank.get(process.rank)
        is_own = of_rank is not None and launch.parse_attempt(of_rank.ring.attempt) == process.attempt
        return of_rank if is_own else None

    def _exit(self, process: Process) -> Exit | None:
        if process.lifetime is not None:
            return self._exits.get(process.lifetime)
        seen = self._by_pid.get(_place(process), ())
        # The kernel gives a pid to another process later.
        return next((end for end in seen if end.at_unix_nano >= process.first), None)


def _place(process: Process) -> tuple[str, int]:
    host, pid = process.identity(names.HOST_NAME), process.identity(names.PROCESS_PID)
    return str(host), int_or_none(pid) or 0


def _key_of_ring(state: RankState) -> tuple[int | None, int | None]:
    return state.ring.rank, state.ring.lifetime.pid


def _of_recorded(process: Process, end: RunEnd | None, seen: Exit | None, ring: RankState | None) -> ProcessEnd:
    """Describe the end of a process that has recorded it, by what it said, by its status, and by its parent."""
    moment = end.time if end is not None else process.number("ended_unix_nano") or process.last
    iteration = ring.step if ring is not None else None
    signal, status = (end.signal, end.status) if end is not None else ("", None)
    state, said = end_states.recorded(process, signal, status, seen, words.step(ring))
    bounds = EndBounds(moment, moment)
    return ProcessEnd(process, state, said, moment, exit=seen, iteration=iteration, is_recorded=True, bounds=bounds)


def _without_end(process: Process, ring: RankState | None, seen: Exit | None, usual_step: float | None) -> ProcessEnd:
    """Describe a process that has recorded no end: it was killed, or runs; ``usual_step`` in seconds."""
    last = max(process.last, process.number("started_unix_nano") or 0, ring.ring.last_sign if ring is not None else 0)
    step, iteration = words.step(ring), ring.step if ring is not None else None
    state, said = end_states.unrecorded(seen, _is_alive(process, ring), step, is_of_ray=process.is_of_ray)
    ago = human.duration(max(time.time_ns() - last, 0) / 1e9) if last else human.UNKNOWN
    if state is EndState.RUNNING:
        silent = ""
        if ring is not None and ring.state == RUNNING:
            silent = _without_progress(ring, usual_step) + ring.cause.removeprefix("running")
        said += f", last sign {ago} ago{silent}"
    elif state is EndState.NOT_KNOWN:
        said += f"; last sign {human.moment(last)}, {ago} ago{step}"
    # The last heartbeat is newer than the last export, whose order is chance.
    bounds = order.bounds(ring) if ring is not None else EndBounds(last, None)
    if seen is not None:
        bounds = order.of_exit(last, seen)
    return ProcessEnd(
        process, state, said, end_states.moment(seen, last), exit=seen, iteration=iteration, bounds=bounds
    )


def _as_told(end: ProcessEnd, told: WorkerEnd) -> ProcessEnd:
    """Return the end of a worker as its cluster has it."""
    if told.pid is not None and told.pid != end.process.identity(names.PROCESS_PID):
        return replace(end, state=EndState.KILLED, words="died, and Ray started it again")
    if told.reason == _RESTARTED:
        # Its cluster has the end of the one before it.
        return end
    if told.is_expected:
        said = f"was ended by the program ({_PLANNED.get(told.reason, told.reason)})"
        return replace(end, state=EndState.IN_ORDER, words=said, time=told.time)
    bounds = EndBounds(told.time, told.time)
    return replace(
        end,
        state=EndState.KILLED,
        words=f"died ({_DEATHS.get(told.reason, told.reason)})",
        time=told.time,
        bounds=bounds,
    )


def _with_driver(ends: list[ProcessEnd]) -> list[ProcessEnd]:
    """Complete the ends of Ray's workers: they end with their driver, and a driver may survive one that dies."""
    leader = leading(ends)
    if leader is None or leader.process.is_of_ray or leader.state.is_open:
        return ends
    return [_beside(end, leader) if end.process.is_of_ray else end for end in ends]


def _beside(end: ProcessEnd, driver: ProcessEnd) -> ProcessEnd:
    if end.state is EndState.NOT_RECORDED:
        if end.process.identity(names.RL_WORKER_NAME) is None and driver.time - end.time > _TOGETHER:
            # A worker of tasks, of whose end Ray keeps no record. It was silent for a while, and may have died.
            return end
        return replace(end, state=EndState.IN_ORDER, words="ended with the program, as Ray ends its workers")
    if end.state is EndState.KILLED and driver.state.is_well:
        return replace(end, state=EndState.IN_ORDER, words=f"{end.words}; the program went on", is_survived=True)
    return end


def _without_progress(ring: RankState, usual_step: float | None) -> str:
    """Return for how long the program has begun and ended nothing, where its steps are much shorter than that."""
    seconds = ring.seconds_without_progress
    if not usual_step or ring.step is None or seconds < max(_STALLED, _STALLED_STEPS * usual_step):
        return ""
    return f"; no progress for {human.duration(seconds)}, {seconds / usual_step:,.0f} times its usual step"


def _is_alive(process: Process, ring: RankState | None) -> bool | None:
    """Return whether the process runs; None where that cannot be seen from here."""
    if ring is not None and ring.state in (RUNNING, GONE):
        return ring.state == RUNNING
    own = process.lifetime
    return lifetime.is_alive(own) if own is not None else None


def is_silent(end: ProcessEnd) -> bool:
    """Return whether a process without an end has recorded nothing for so long that it cannot run."""
    return (time.time_ns() - end.time) / 1e9 > SILENT


def rings_tell(collected: Collected) -> bool:
    """Return whether the run ended badly by its rings, or while a rank that others waited for was told to hang."""
    postmortem = collected.rings.postmortem
    if postmortem is None or collected.rings.are_superseded:
        return False
    if collected.rings.ended_badly:
        return True
    waited_for = {(origin.ring.rank, origin.step) for origin in postmortem.waits.origins}
    hangs = (group for group in errors.table(collected) if group.is_hang)
    return any((rank, group.iteration) in waited_for for group in hangs for rank in group.ranks)
