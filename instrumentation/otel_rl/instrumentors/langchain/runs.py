"""Runs of LangChain and the spans they belong to, by run id.

Some runs never end: a stream of events that the program abandons loses their callbacks. Those that are open when the
run at the top of their tree ends, end with it; and where the table is full, the one that was used longest ago makes
room.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.telemetry import drops, lifecycle, open_trajectory
from otel_rl.telemetry.context import attach, get_current

if TYPE_CHECKING:
    from uuid import UUID

    from opentelemetry.context import Context

    from otel_rl.agents.runs import RecordedRun
    from otel_rl.agents.trajectories import AgentTrajectory

#: Open runs: eight of each of 8,192 rollouts at once. An agent holds two to four of them.
MAXIMUM_RUNS = 65_536


@dataclass(slots=True, eq=False, repr=False)
class TracedRun:
    """A run; its ``context`` is its own span's, or that of the nearest run above it that has one."""

    run_id: UUID
    context: Context | None = None
    #: Its span, or at least its trajectory, where it has one of them.
    recorded: RecordedRun | None = None
    is_node: bool = False
    above: TracedRun | None = None
    #: The context that was current then.
    began_in: Context = field(default_factory=get_current)
    #: The state a node was given: its keys, and its reward.
    given: tuple[tuple[str, ...], object] = ((), None)
    #: A node at or below this run has set the reward.
    has_scored: bool = False
    #: Nodes run directly below it.
    is_graph: bool = False
    #: It goes on with a run that was interrupted.
    resumes: bool = False
    #: All that are open below it, where it is the top of its tree; the tree has one such table.
    open_below: dict[UUID, TracedRun] = field(default_factory=dict)
    #: What this run is part of, where it is the top of its tree and no rollout is open around it.
    trajectory: AgentTrajectory | None = None

    def __post_init__(self) -> None:
        if self.above is not None:
            self.open_below, self.trajectory = self.above.open_below, self.above.trajectory

    def begin_trajectory(self) -> None:
        """Count the run at the top as a trajectory."""
        if self.trajectory is not None:
            self.trajectory.begin()


#: Those that were used longest ago come first.
_runs: OrderedDict[UUID, TracedRun] = OrderedDict()
#: The run whose context has been entered; tells a context below it from one that lost it on the way.
_entered: ContextVar[TracedRun | None] = ContextVar("otel_rl_langchain_run", default=None)


def add(run: TracedRun) -> list[TracedRun]:
    """Remember a run that starts; return the runs that had to make room, for the caller to end."""
    evicted = []
    while len(_runs) >= MAXIMUM_RUNS:
        try:
            oldest_id, oldest = _runs.popitem(last=False)
        except KeyError:  # other threads took the rest
            break
        oldest.open_below.pop(oldest_id, None)
        evicted.append(oldest)
        drops.count("traces", "too_many_open_runs")
    _runs[run.run_id] = run
    if run.above is not None:
        run.open_below[run.run_id] = run
    return evicted


def pop(run_id: UUID) -> list[TracedRun]:
    """Forget a run that ended, and all that are still open below it where it is the top; the run itself is the last."""
    run = _runs.pop(run_id, None)
    if run is None:
        return []
    if run.above is not None:
        run.open_below.pop(run_id, None)
        return [run]
    orphans = list(run.open_below.values())
    run.open_below.clear()
    return [*(orphan for orphan in reversed(orphans) if _runs.pop(orphan.run_id, None) is not None), run]


def pop_all() -> list[TracedRun]:
    """Forget every run, those that began last first."""
    open_runs = list(reversed(_runs.values()))
    _runs.clear()
    return open_runs


def open_run(run_id: UUID | None) -> TracedRun | None:
    """Return an open run."""
    return None if run_id is None else _runs.get(run_id)


def use(run_id: UUID | None) -> TracedRun | None:
    """Return an open run below which another one starts: neither it nor those above it make room before others do."""
    run = used = open_run(run_id)
    if len(_runs) * 2 < MAXIMUM_RUNS:
        return used
    while run is not None:
        with suppress(KeyError):  # one of those above may have ended
            _runs.move_to_end(run.run_id)
        run = run.above
    return used


def context_below(run: TracedRun | None) -> Context | None:
    """Return the context for what starts below ``run``: its own, or None (the current one) where that is below it."""
    return None if run is None or _entered.get() is run else run.context


def context_without_span(above: TracedRun | None) -> Context | None:
    """Return the context of a run that starts below ``above`` and has no span: the current one where that is inside."""
    if above is None or above.context is None:
        return None
    return get_current() if _entered.get() is above else above.context


def entered() -> TracedRun | None:
    """Return the run whose body the caller is in, while it is open."""
    run = _entered.get()
    return run if run is not None and _runs.get(run.run_id) is run else None


def enter_for(config: Any) -> None:
    """Make the run that ``config`` belongs to current, in a context that LangChain made for its body alone."""
    callbacks = config.get("callbacks") if isinstance(config, dict) else None
    run = open_run(getattr(callbacks, "parent_run_id", None))
    context = context_below(run)
    trajectory = None if run is None else run.trajectory
    if trajectory is not None:
        open_trajectory.enter(trajectory.counters)
    if context is not None:
        # Never detached: the context is a copy that is dropped after the body.
        attach(context)
        _entered.set(run)


lifecycle.after_fork_in_child(_runs.clear)
