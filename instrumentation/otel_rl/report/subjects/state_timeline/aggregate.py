"""What every rank, engine and rollout did, from the spans of the run in any order, in bounded memory.

The latest stretches are kept as they were; of older ones the time in each state, in bins that cover the whole run, and
the stretches of the slowest steps. Nothing changes when it is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.subjects.state_timeline import states
from otel_rl.report.subjects.state_timeline.bins import Bins
from otel_rl.report.subjects.state_timeline.lanes import BASE, GROUND, Lane, Stretch
from otel_rl.report.subjects.state_timeline.rollouts import Rollouts
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, spans
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none

if TYPE_CHECKING:
    from otel_rl.report.subjects.state_timeline.lanes import Change
    from otel_rl.report.subjects.state_timeline.rollouts import StepKey
    from otel_rl.store.reader import Process, Span

#: Stretches that all lanes keep as they were, and each of many lanes at least.
_STRETCHES, _OF_A_LANE = 300_000, 200
#: Lanes, beyond which processes are left out and counted; and moments of steps and of weight syncs that are kept.
_LANES, STEPS = 1024, 500
_SLOWEST = 3
#: Times its length by which the ranks may be apart in a step.
_APART = 10
#: Begin of the time that is drawn, and how far from the first record a record may be: others have a wrong clock.
_EARLIEST, _FARTHEST = 946_684_800 * 10**9, 400 * 86_400 * 10**9
_LARGEST_STEP = 1 << 62

RANKS, ENGINES, ROLLOUTS = "rank", "engine", "rollout"


@dataclass(slots=True)
class LaneOfProcess:
    """A lane with what it is called; ``slow`` are stretches of slow steps that the lane itself has let go."""

    place: int
    group: str
    name: str
    role: str
    rank: int | None
    node: str
    #: Adds time to the bins, or takes it away.
    change: Change
    lane: Lane = field(default_factory=Lane)
    slow: dict[int, list[Stretch]] = field(default_factory=dict)


class Window(NamedTuple):
    """A step, from its begin on the first rank to its end on the last one, in ns since the epoch."""

    attempt: tuple[int, ...]
    iteration: int
    start: int
    end: int


class StateTimeline:
    """Takes in spans; memory depends on neither their number nor the length of the run."""

    def __init__(self) -> None:
        self.lanes: dict[tuple[str, ...], LaneOfProcess] = {}
        self._of_process: dict[Process, LaneOfProcess] = {}
        self.bins = Bins()
        self.rollouts = Rollouts()
        #: Records with a wrong clock, and those of processes beyond the lanes that are kept.
        self.misdated = self.left_out = 0
        self._windows: dict[StepKey, tuple[int, int]] = {}
        self._slowest: dict[StepKey, float] = {}
        self._syncs: dict[StepKey, int] = {}
        #: Process -> number and end of its last step.
        self._last: dict[str, tuple[int, int]] = {}
        self._asleep: dict[str, int] = {}
        self._first = 0
        #: First and last moment by group.
        self._extents: dict[str, tuple[int, int]] = {}

    def add_span(self, span: Span) -> None:
        """Take in a step, a phase, a rollout or a call; others are ignored."""
        if not self._is_in_time(span):
            return
        attributes = span.attributes
        if span.name == spans.RL_RANK_STEP.type:
            self._add_step(span)
            return
        is_phase = names.RL_PHASE in attributes and names.RL_ROLLOUT_ID not in attributes
        if is_phase:
            self._add_phase(span)
        if names.RL_SYNC_OPERATION in attributes:
            self._add_operation(span)
        elif names.RL_ENGINE_REQUESTS in attributes:
            self._paint(self._engine(span.process), span, states.BUSY, BASE)
        elif names.SERVER_ADDRESS in attributes and not span.is_server and states.of_call(span) == states.GENERATE:
            self._paint(self._server(span), span, states.BUSY, BASE)
        if not is_phase and self.rollouts.add(span, self._slowest):
            self._see(ROLLOUTS, span.start, span.end)

    def _is_in_time(self, span: Span) -> bool:
        if span.end == span.start:
            return False
        if _EARLIEST < span.start < span.end < span.start + _FARTHEST:
            self._first = self._first or span.start
            if abs(span.start - self._first) < _FARTHEST:
                return True
        self.misdated += 1
        return False

    # -- ranks -----------------------------------------------------------------------------------------------------

    def _add_step(self, span: Span) -> None:
        iteration = _iteration(span)
        lane = self._rank(span.process)
        self._paint(lane, span, states.IN_NO_PHASE, BASE)
        for event in span.events:
            seconds = float_or_none(event.attributes.get(names.TORCH_DISTRIBUTED_DURATION)) or 0.0
            if event.name == events.TORCH_DISTRIBUTED_COLLECTIVE.name and 0 < seconds <= span.seconds:
                start = max(event.time, span.start)
                end = min(start + int(seconds * 1e9), span.end)
                if start < end:
                    self._paint_stretch(lane, Stretch(start, end, states.COLLECTIVE, iteration))
        number, before = self._last.get(span.process.key, (-1, 0))
        # Of ranks that take turns, and of short steps, not all have spans: between these it did not wait.
        if 0 < before < span.start and iteration == number + 1:
            self._paint_stretch(lane, Stretch(before, span.start, states.BETWEEN_STEPS, -1), GROUND)
        if span.end > before:
            self._last[span.process.key] = iteration, span.end
        if iteration >= 0:
            self._note_step((span.process.attempt, iteration), span)

    def _note_step(self, key: StepKey, span: Span) -> None:
        start, end = self._windows.get(key, (span.start, span.end))
        apart = max(span.start - end, start - span.end)
        if apart > _APART * max(end - start, span.end - span.start):
            # The numbers began again: the later one counts.
            self._windows[key] = max((start, end), (span.start, span.end))
        else:
            self._windows[key] = min(start, span.start), max(end, span.end)
        if len(self._windows) > 2 * STEPS:
            kept = {*sorted(self._windows, key=self._windows.__getitem__)[-STEPS:], *self._slowest}
            self._windows = {step: window for step, window in self._windows.items() if step in kept}
        self._slowest[key] = max(self._slowest.get(key, 0.0), span.seconds)
        if len(self._slowest) > _SLOWEST:
            del self._slowest[min(self._slowest, key=self._slowest.__getitem__)]

    def _add_phase(self, span: Span) -> None:
        phase = str(span.attributes[names.RL_PHASE])
        self._paint(self._rank(span.process), span, states.of_phase(phase))
        if phase in states.SYNCS:
            key = span.process.attempt, _iteration(span)
            key = key if key[1] >= 0 else ((), -span.start)
            self._syncs[key] = min(self._syncs.get(key, span.start), span.start)
            if len(self._syncs) > 2 * STEPS:
                latest = sorted(self._syncs, key=self._syncs.__getitem__)[-STEPS:]
                self._syncs = {step: self._syncs[step] for step in latest}

    # -- engines ---------------------------------------------------------------------------------------------------

    def _add_operation(self, span: Span) -> None:
        """Take in an operation on an engine; from one that lays it to sleep to one that wakes it, it sleeps."""
        engine = self._engine(span.process)
        operation = str(span.attributes[names.RL_SYNC_OPERATION])
        key = span.process.key
        if "sleep" in operation:
            self._asleep[key] = span.end
        elif "wake" in operation:
            since = self._asleep.pop(key, span.start)
            if since < span.start:
                self._paint_stretch(engine, Stretch(since, span.start, states.ASLEEP, -1), BASE)
        is_memory = "sleep" in operation or "wake" in operation or "load" in operation
        self._paint(engine, span, states.LOAD if is_memory else states.WEIGHT_SYNC)

    # -- lanes -----------------------------------------------------------------------------------------------------

    def _rank(self, process: Process) -> LaneOfProcess | None:
        lane = self._of_process.get(process)
        if lane is None:
            rank, role = process.rank, str(process.identity(names.RL_ROLE) or "")
            # The processes of all attempts share the lane of their rank.
            key = (RANKS, role, str(rank)) if rank is not None else (RANKS, process.key)
            lane = self.lanes.get(key) or self._new(key, RANKS, process.label, process)
            if lane is not None:
                self._of_process[process] = lane
        return lane

    def _engine(self, process: Process) -> LaneOfProcess | None:
        key = ENGINES, process.key
        return self.lanes.get(key) or self._new(key, ENGINES, f"engine of {process.label}", process)

    def _server(self, span: Span) -> LaneOfProcess | None:
        address, port = (span.attributes.get(name) for name in (names.SERVER_ADDRESS, names.SERVER_PORT))
        name = f"{address}:{port}" if port is not None else str(address)
        key = ENGINES, "", name
        return self.lanes.get(key) or self._new(key, ENGINES, name, None)

    def _new(self, key: tuple[str, ...], group: str, name: str, process: Process | None) -> LaneOfProcess | None:
        if len(self.lanes) >= _LANES:
            self.left_out += 1
            return None
        node = process.identity(names.RL_NODE_RANK) if process else None
        host = process.identity(names.HOST_NAME) if process else None
        role = process.identity(names.RL_ROLE) if process else None
        lane = LaneOfProcess(
            len(self.lanes),
            group,
            name,
            str(role or ""),
            process.rank if process else None,
            str(host or "" if node is None else node),
            partial(self.bins.add, len(self.lanes)),
        )
        self.lanes[key] = lane
        self.bins.reserve(len(self.lanes))
        return lane

    def _paint(self, lane: LaneOfProcess | None, span: Span, kind: int, length: int = 0) -> None:
        if lane is not None and span.start < span.end:
            self._paint_stretch(lane, Stretch(span.start, span.end, kind, _iteration(span)), length)

    def _paint_stretch(self, of_process: LaneOfProcess | None, stretch: Stretch, length: int = 0) -> None:
        if of_process is None:
            return
        self._see(of_process.group, stretch.start, stretch.end)
        lane, place = of_process.lane, of_process.place
        if stretch.start < lane.horizon:
            self.bins.fill(place, stretch.kind, stretch.start, min(stretch.end, lane.horizon))
            stretch = stretch._replace(start=lane.horizon)
            if stretch.end <= lane.horizon:
                return
        lane.paint(stretch, of_process.change, length)
        if len(lane) > max(_STRETCHES // len(self.lanes), _OF_A_LANE):
            self._let_go(of_process)

    def _see(self, group: str, start: int, end: int) -> None:
        first, last = self._extents.get(group, (start, end))
        self._extents[group] = min(first, start), max(last, end)

    def _let_go(self, lane: LaneOfProcess) -> None:
        slow = {iteration for _, iteration in self._slowest}
        for stretch in lane.lane.let_go():
            if stretch.step in slow:
                lane.slow.setdefault(stretch.step, []).append(stretch)
        lane.slow = {step: kept for step, kept in lane.slow.items() if step in slow}

    # -- what comes out --------------------------------------------------------------------------------------------

    @property
    def ranks(self) -> list[LaneOfProcess]:
        """Lanes of ranks, and of processes without one that have steps or phases; none in a run without steps."""
        return [lane for lane in self._ordered() if lane.group == RANKS] if self._windows else []

    @property
    def engines(self) -> list[LaneOfProcess]:
        """Lanes of engines in the processes, and of model servers."""
        return [lane for lane in self._ordered() if lane.group == ENGINES]

    def _ordered(self) -> list[LaneOfProcess]:
        return sorted(self.lanes.values(), key=lambda lane: (lane.rank is None, lane.rank or 0, lane.role, lane.name))

    @property
    def steps(self) -> list[Window]:
        """The latest steps in the order in which they began."""
        found = sorted(
            (Window(attempt, iteration, *moments) for (attempt, iteration), moments in self._windows.items()),
            key=lambda window: (window.start, window.end),
        )
        return found[-STEPS:]

    @property
    def slowest(self) -> Window | None:
        """The step that took a rank the longest."""
        if not self._slowest:
            return None
        attempt, iteration = max(self._slowest, key=self._slowest.__getitem__)
        return Window(attempt, iteration, *self._windows[attempt, iteration])

    @property
    def syncs(self) -> list[int]:
        """When the latest weight syncs began, in ns since the epoch."""
        return sorted(self._syncs.values())[-STEPS:]

    #: Steps that :attr:`steps` has at most.
    most_steps = STEPS

    @property
    def drawn(self) -> list[LaneOfProcess]:
        """All lanes in the order of the page: engines at the top."""
        return [*self.engines, *self.ranks]

    @property
    def start(self) -> int:
        """The first moment of all lanes that are drawn, in ns since the epoch."""
        return min((start for start, _ in self._drawn_extents()), default=0)

    @property
    def end(self) -> int:
        """The last one."""
        return max((end for _, end in self._drawn_extents()), default=0)

    def _drawn_extents(self) -> list[tuple[int, int]]:
        return [extent for group, extent in self._extents.items() if group != RANKS or self._windows]

    def totals(self, lane: LaneOfProcess) -> list[float]:
        """Return the seconds of a lane by state."""
        return [float(row.sum()) for row in self.bins.table(lane.place, len(states.STATES))]

    def of_window(self, lane: LaneOfProcess, window: Window, until: int) -> list[Stretch]:
        """Return the stretches of a lane in a window as far as they are kept, up to a moment."""
        kept = [*lane.slow.get(window.iteration, ()), *lane.lane]
        return [one for one in kept if window.start < one.end and one.start < min(window.end, until)]


def _iteration(span: Span) -> int:
    iteration = int_or_none(span.attributes.get(names.RL_LOOP_ITERATION))
    return -1 if iteration is None or not 0 <= iteration < _LARGEST_STEP else iteration
