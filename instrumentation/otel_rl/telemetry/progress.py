"""Signs that this process goes on, for the watchdog: it compares them with what it saw when it last woke.

Who makes progress adds to a number, or has one already and lets the watchdog read it. Nothing here locks. Two threads
that add at once may be counted as one, which is a sign all the same.

Calls of tools, models and services are known from their begin to their end, with where they began: one that does not
return is found among them.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakSet, ref

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.recorder import flight
from otel_rl.process import process_identity
from otel_rl.telemetry import lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.trace import Span

#: Most phases that are known to be open; what a program never ends makes room for others.
MAXIMUM_OPEN = 256

#: Phases that began or ended in this process, and calls of models and tools that ended.
PHASES, CALLS = range(2)
made = [0, 0]
#: id of each open phase -> its name, the one begun last at the end.
_open_phases: dict[int, str] = {}
_sources: list[Callable[[], object]] = []


class InEventLoop(Protocol):
    """A rollout or a model call that began in an event loop."""

    #: The id of the loop; 0: it began in none.
    event_loop: int

    @property
    def has_ended(self) -> bool:
        """True when the loop has no part in it any more."""


#: By kind, those that somebody still refers to; they may have ended.
ROLLOUTS, MODEL_CALLS = range(2)
_in_event_loops: tuple[WeakSet[InEventLoop], ...] = (WeakSet(), WeakSet())
#: Gets each event loop in which an operation begins, in the loop's thread; None: nobody watches event loops.
_loop_watcher: Callable[[Any], object] | None = None


def add_source(source: Callable[[], object]) -> None:
    """Let the watchdog's thread call ``source()`` about once a second; another answer is progress. It must not lock."""
    if source not in _sources:
        _sources.append(source)


def remove_source(source: Callable[[], object]) -> None:
    """Undo :func:`add_source`."""
    if source in _sources:
        _sources.remove(source)


def of_sources() -> tuple[object, ...]:
    """Return the answers of the sources; raises what they raise."""
    return tuple(source() for source in list(_sources))


def phase_began(identity: int, name: str) -> None:
    """Note that a phase has begun; ``identity`` is given to :func:`phase_ended`."""
    made[PHASES] += 1
    if len(_open_phases) >= MAXIMUM_OPEN:
        _open_phases.pop(next(iter(_open_phases)), None)
    _open_phases[identity] = name


def phase_ended(identity: int) -> None:
    """Note that a phase has ended, or was suspended."""
    made[PHASES] += 1
    _open_phases.pop(identity, None)


def call_ended() -> None:
    """Note that a call of a model or of a tool has ended."""
    made[CALLS] += 1
    process_identity.note_work()


def watch_event_loops(watcher: Callable[[Any], object] | None) -> None:
    """Let :func:`event_loop` call ``watcher(loop)``. It is on the way of each model call, so it must be quick."""
    global _loop_watcher
    _loop_watcher = watcher


def event_loop() -> int:
    """Return the id of the event loop that runs in this thread, 0 where none does, for an operation that begins."""
    if _loop_watcher is None:
        return 0
    asyncio = sys.modules.get("asyncio.events")
    # Another thread may be importing it.
    running = getattr(asyncio, "_get_running_loop", None)
    loop = running() if running is not None else None
    if loop is None:
        return 0
    _loop_watcher(loop)
    return id(loop)


def began_in_event_loop(kind: int, operation: InEventLoop) -> None:
    """Count a rollout or model call that begins as waiting in this thread's event loop, if one runs."""
    loop = event_loop()
    if loop:
        operation.event_loop = loop
        _in_event_loops[kind].add(operation)


def open_in_event_loop(kind: int, loop: int) -> int:
    """How many began in the event loop with this id and have not ended; for the watchdog's thread."""
    # One copy of the set of references: the set itself may change at any moment.
    operations = (reference() for reference in list(_in_event_loops[kind].data))  # type: ignore[attr-defined]
    return sum(
        operation is not None and operation.event_loop == loop and not operation.has_ended for operation in operations
    )


def open_phases() -> tuple[str, ...]:
    """Names of the phases that are open in any thread, the one begun last at the end."""
    return tuple(_open_phases.values())


# -- parts of the run that are open ----------------------------------------------------------------------------------


class OpenPart:
    """A part of the run that shows no progress while it is open, as the wait for a batch; the ring has it too."""

    __slots__ = ("argument", "began", "handle", "name", "thread", "told_at")

    def __init__(self, name: str, argument: int) -> None:
        self.name, self.argument, self.thread = name, argument, get_ident()
        #: Of the monotonic clock, in s.
        self.began = monotonic()
        #: Seconds after its begin at which the watchdog has told of it; 0: it has not.
        self.told_at = 0.0
        self.handle = flight.begin(layout.PART, name, argument)

    @property
    def words(self) -> str:
        """What stands behind `in` in a sentence."""
        return layout.part_words(self.name, self.argument)


#: By id, in the order of their begins.
_open_parts: dict[int, OpenPart] = {}
#: Called with each part that begins and that ends, for who watches them.
_part_watchers: tuple[Callable[[OpenPart], object], Callable[[OpenPart, bool], object]] | None = None


def watch_parts(watchers: tuple[Callable[[OpenPart], object], Callable[[OpenPart, bool], object]] | None) -> None:
    """Call ``began(part)`` and ``ended(part, failed)`` in the thread of each part that begins and ends."""
    global _part_watchers
    _part_watchers = watchers


def part_began(name: str, argument: int = 0, *, may_watch: bool = True) -> OpenPart:
    """Note that a part of the run has begun; ``argument`` is what :data:`layout.PARTS` says that it counts.

    Without ``may_watch`` no thread begins for it: the program may fork within it.
    """
    part = OpenPart(name, argument)
    if len(_open_parts) >= MAXIMUM_OPEN:
        _open_parts.pop(next(iter(_open_parts)), None)
    _open_parts[id(part)] = part
    if _part_watchers is not None and may_watch:
        _part_watchers[0](part)
    return part


def part_ended(part: OpenPart, *, failed: bool) -> None:
    """Note that it is over."""
    handle, part.handle = part.handle, None
    flight.end(handle, failed)
    if _open_parts.pop(id(part), None) is not None and _part_watchers is not None:
        _part_watchers[1](part, failed)


def open_parts() -> list[OpenPart]:
    """Return the parts that are open in any thread, the one begun last at the end."""
    return list(_open_parts.values())


# -- calls that are open -----------------------------------------------------------------------------------------------


class CallBegin(NamedTuple):
    """When and where a call began."""

    #: Seconds of the monotonic clock.
    moment: float
    thread: int
    #: The task of asyncio; None outside of an event loop.
    task: ref[Any] | None
    #: The tool that it is inside of.
    tool: OpenCall | None
    #: Identifies the program's outermost frame in the thread, see :func:`sign_frames`; 0: not known.
    frame: int = 0


class TrajectoryOfCall(Protocol):
    """The trajectory that a call is part of."""

    identifier: str | None
    #: What its row is found by: ``rl.rollout.id``, and the trace.
    names: tuple[str | None, str | None]


class CallState(NamedTuple):
    """What is known of a call that is open."""

    #: One of ``RlCallKindValues``.
    kind: str
    #: With the kind it says whose durations it is compared with.
    name: str
    #: Attributes that name it.
    values: Mapping[str, Any]
    span: Span | None
    trajectory: TrajectoryOfCall | None
    #: Id of the span that it is below, in another process too; 0: not known.
    parent: int = 0
    #: Moment of its last sign, as a chunk of an answer; 0: it gave none.
    last_sign: float = 0.0
    #: The program has a part of the answer and does not ask for more: nobody waits for it.
    is_held: bool = False


class OpenCall(Protocol):
    """A call of a tool, a model or a service, from its begin to its end."""

    begin: CallBegin | None
    #: Moment when the last call inside of it has ended.
    last_inside: float

    def state(self) -> CallState | None:
        """Return what is known of it, None once it is over; for the watchdog's thread."""


class EndedCall(NamedTuple):
    """A call that has ended."""

    identity: int
    kind: str
    name: str
    seconds: float
    failed: bool
    #: The program has left its answer: it took as long as the program held that.
    was_left: bool


class CallTotals(NamedTuple):
    """The calls of one tool, model or service that have ended.

    ``work`` is what the ``seconds`` are for: calls, or tokens where the call says how many it made.
    """

    number: int = 0
    failed: int = 0
    seconds: float = 0.0
    work: int = 0

    def since(self, before: CallTotals | None) -> CallTotals:
        """Return those after ``before``."""
        if before is None:
            return self
        number, failed, seconds, work = before
        return CallTotals(self.number - number, self.failed - failed, self.seconds - seconds, self.work - work)


#: Most tools, models and services whose calls are counted.
_MOST_COUNTED = 64
_totals: dict[tuple[str, str], CallTotals] = {}
#: Calls that ended since the watchdog last woke; of more the oldest are forgotten.
_ENDED = 4096
#: Most calls that are known: then those that the program has dropped without an end are forgotten, else the oldest.
_MOST_CALLS = 16_384
#: By id, in the order of their begins. Weak: what a program drops without an end is open no more.
_open_calls: dict[int, ref[OpenCall]] = {}
_ended_calls: deque[EndedCall] = deque(maxlen=_ENDED)
_calls_are_watched = False
#: Returns a number that identifies the program's outermost frame in this thread.
_signer: Callable[[], int] | None = None
#: Called with each call that begins, until somebody watches them.
_watch_starter: Callable[[OpenCall], object] | None = None


def watch_calls(starter: Callable[[OpenCall], object] | None) -> None:
    """Record open calls from now on, and pass each to ``starter`` until :func:`calls_are_seen`; None ends it."""
    global _calls_are_watched, _watch_starter
    _calls_are_watched, _watch_starter = starter is not None, starter


def calls_are_seen() -> None:
    """Note that somebody looks at the calls: no starter is asked any more."""
    global _watch_starter
    _watch_starter = None


def sign_frames(signer: Callable[[], int] | None) -> None:
    """Let ``signer()`` return the ``frame`` of each call that begins outside of event loops. It must be quick."""
    global _signer
    _signer = signer


def call_began(call: OpenCall, tool: OpenCall | None = None) -> None:
    """Know ``call`` until :func:`call_is_over`; ``tool`` is the one that it is inside of."""
    if not _calls_are_watched:
        return
    task = _current_task()
    frame = _signer() if _signer is not None and task is None else 0
    # Not CallBegin(...), which runs Python code: this is on the way of each model call.
    call.begin = tuple.__new__(CallBegin, (monotonic(), get_ident(), task, tool, frame))
    if len(_open_calls) >= _MOST_CALLS:
        _make_room()
    _open_calls[id(call)] = ref(call)
    if _watch_starter is not None:
        _watch_starter(call)


def call_is_over(
    call: OpenCall, kind: str, name: str, *, failed: bool, was_left: bool = False, work: int | None = 1
) -> None:
    """Note that ``call`` has ended; ``was_left`` where the program has not read its answer to the end.

    ``work``: see :class:`CallTotals`; its seconds are left out where that is not known.
    """
    begin = call.begin
    if begin is None or _open_calls.pop(id(call), None) is None:
        return
    now = monotonic()
    _ended_calls.append(tuple.__new__(EndedCall, (id(call), kind, name, now - begin.moment, failed, was_left)))
    _count((kind, name), now - begin.moment, failed=failed, work=0 if failed or was_left else work or 0)
    if begin.tool is None:
        return
    nearest: OpenCall | None = None
    tool: OpenCall | None = begin.tool
    while tool is not None:
        tool.last_inside = now
        if nearest is None and id(tool) in _open_calls:
            nearest = tool
        tool = tool.begin.tool if tool.begin is not None else None
    # Tools that each begin inside of the one before would all be kept by the last one.
    call.begin = begin._replace(tool=nearest)


def _count(callee: tuple[str, str], seconds: float, *, failed: bool, work: int) -> None:
    totals = _totals.get(callee)
    if totals is None:
        if len(_totals) >= _MOST_COUNTED:
            return
        totals = CallTotals()
    # Two threads may lose a call.
    _totals[callee] = CallTotals(
        totals.number + 1, totals.failed + failed, totals.seconds + (seconds if work else 0.0), totals.work + work
    )


def call_totals() -> dict[tuple[str, str], CallTotals]:
    """Return the calls that have ended, by kind and name."""
    return dict(_totals)


def open_calls(before: float | None = None) -> list[OpenCall]:
    """Return the open calls; those that began ``before`` a moment."""
    _forget_dropped()
    found: list[OpenCall] = []
    for reference in list(_open_calls.values()):
        call = reference()
        begin = call.begin if call is not None else None
        if call is None or begin is None:
            continue
        if before is None or begin.moment <= before:
            found.append(call)
    return found


def _forget_dropped() -> None:
    """Forget calls that nobody refers to any more."""
    for identity, reference in list(_open_calls.items()):
        if reference() is None:
            left = _open_calls.pop(identity, None)
            if left is not None and left is not reference:
                # Another call had that id by now.
                _open_calls[identity] = left


def _make_room() -> None:
    """Forget what was dropped; where all calls are held, the oldest."""
    _forget_dropped()
    if len(_open_calls) >= _MOST_CALLS:
        for identity in list(_open_calls)[: _MOST_CALLS // 2]:
            _open_calls.pop(identity, None)


def parent_of(span: Span | None) -> int:
    """Return the id of the span that ``span`` is below; 0 where that is not known, as of one that is not sampled."""
    return int(getattr(getattr(span, "parent", None), "span_id", 0))


def ended_calls() -> list[EndedCall]:
    """Return those that have ended since the last call of this, in that order."""
    ended: list[EndedCall] = []
    while _ended_calls:
        ended.append(_ended_calls.popleft())
    return ended


def _current_task() -> ref[Any] | None:
    tasks = sys.modules.get("asyncio.tasks")
    # Another thread may be importing it.
    running, current = getattr(tasks, "events", None), getattr(tasks, "current_task", None)
    loop = running._get_running_loop() if running is not None else None  # noqa: SLF001 - the public one raises
    task = current(loop) if loop is not None and current is not None else None
    try:
        return ref(task) if task is not None else None
    except TypeError:  # of a factory of the program
        return None


def _forget() -> None:
    """In a forked child they are the parent's."""
    _open_phases.clear()
    _open_parts.clear()
    _open_calls.clear()
    _ended_calls.clear()
    _totals.clear()
    for operations in _in_event_loops:
        operations.clear()


lifecycle.after_fork_in_child(_forget)
