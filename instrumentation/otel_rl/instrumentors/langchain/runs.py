"""Runs of LangChain and the spans they belong to, by run id."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from otel_rl.telemetry import drops, lifecycle
from otel_rl.telemetry.context import attach

if TYPE_CHECKING:
    from uuid import UUID

    from otel_rl.semconv.definitions import MetricDefinition

    #: Metric of the duration, and its labels without the error.
    Measured = tuple[MetricDefinition, dict[str, Any]]
    #: Context and span of OpenTelemetry, which only telemetry/ knows.
    Context = Any
    Span = Any

#: Runs that never end (their callbacks were lost) must not grow without a limit.
MAXIMUM_RUNS = 10_000


class Run:
    """A run; its ``context`` is its own span's, or that of the nearest run above it that has one."""

    __slots__ = ("above", "context", "given", "is_node", "measured", "scored", "span", "started")

    def __init__(
        self,
        context: Context | None = None,
        span: Span | None = None,
        measured: Measured | None = None,
        started: float = 0,
        is_node: bool = False,
        above: Run | None = None,
    ) -> None:
        self.context = context
        self.span = span
        #: Set where the run is an agent's or a workflow's.
        self.measured = measured
        #: ``time.perf_counter()`` in s.
        self.started = started
        self.is_node = is_node
        self.above = above
        #: The state a node was given: its keys, and its reward.
        self.given: tuple[tuple[str, ...], object] = ((), None)
        #: The reward last recorded in or below this run.
        self.scored: float | None = None


_runs: dict[UUID, Run] = {}
#: The run whose context has been entered; tells a context below it from one that lost it on the way.
_entered: ContextVar[Run | None] = ContextVar("otel_rl_langchain_run", default=None)


def add(run_id: UUID, run: Run) -> None:
    """Remember a run that starts."""
    if len(_runs) >= MAXIMUM_RUNS:
        drops.count("traces", "too_many_open_runs")
        return
    _runs[run_id] = run


def pop(run_id: UUID) -> Run | None:
    """Forget a run that ended."""
    return _runs.pop(run_id, None)


def find(run_id: UUID | None) -> Run | None:
    """An open run."""
    return None if run_id is None else _runs.get(run_id)


def context_below(run: Run | None) -> Context | None:
    """The context for what starts below ``run``: its own, or None (the current one) where that is below it already."""
    return None if run is None or _entered.get() is run else run.context


def enter_for(config: Any) -> None:
    """Make the run that ``config`` belongs to current, in a context that LangChain made for its body alone."""
    callbacks = config.get("callbacks") if isinstance(config, dict) else None
    run = find(getattr(callbacks, "parent_run_id", None))
    context = context_below(run)
    if context is not None:
        # Never detached: the context is a copy that is dropped after the body.
        attach(context)
        _entered.set(run)


lifecycle.after_fork_in_child(_runs.clear)
