"""The event of a call that does not return, and that of its end, each with a line on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opentelemetry import trace as trace_api
from opentelemetry._logs import SeverityNumber

from otel_rl.core.guard import guard
from otel_rl.process import process_identity
from otel_rl.ranks.watchdog import reports
from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import RlCallEndingValues as Ending
from otel_rl.semconv.attributes import RlCallKindValues as Kind
from otel_rl.telemetry import deferral, progress, redaction
from otel_rl.telemetry.scope import Scope
from otel_rl.training import steps

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from otel_rl.core.code_places import RunningFunction
    from otel_rl.ranks.watchdog.call_limits import CallLimit
    from otel_rl.telemetry.progress import CallState, TrajectoryOfCall

_scope = Scope("process")
_WORDS = {
    Kind.TOOL: "tool {}",
    Kind.MODEL: "model call {}",
    Kind.ENGINE: "engine call {}",
    Kind.SERVICE: "request to service {}",
    Kind.REQUEST: "request {}",
}
_ENDINGS = {
    Ending.RETURNED: "returned after {:.0f} s",
    Ending.FAILED: "failed after {:.0f} s",
    Ending.DROPPED: "was dropped after {:.0f} s",
    Ending.WENT_ON: "goes on after {:.0f} s",
    Ending.USUAL: "does not hang, other calls of it take as long; it has been open for {:.0f} s",
}
#: Seconds from which on durations are written without digits behind the point.
_ROUNDED = 10
#: Attributes that a call has from what it is.
_NAMING = (
    attributes.GEN_AI_TOOL_NAME,
    attributes.GEN_AI_REQUEST_MODEL,
    attributes.RL_SERVICE,
    attributes.SERVER_ADDRESS,
    attributes.SERVER_PORT,
)


class CallHang(NamedTuple):
    """A call that hangs."""

    state: CallState
    seconds: float
    limit: CallLimit
    #: Calls of its name that are open for longer than the limit.
    number: int
    #: Where it waits.
    place: RunningFunction | None
    #: The tool that it is inside of.
    tool: str | None

    @property
    def words(self) -> str:
        """The hang as one line."""
        usual = self.limit.usual
        compared = "the first call of it" if usual is None else f"its calls take {_seconds(usual)}"
        place = self.place
        rollout = rollout_of(self.state.trajectory)
        parts = [
            f"{words_of(self.state)} has not returned for {self.seconds:.0f} s ({compared})",
            f"in rollout {rollout}" if rollout else "",
            f"inside tool {self.tool}" if self.tool else "",
            f"in {place.function}, line {place.line} of {place.file}" if place is not None else "",
            f"with {self.number - 1} more of its kind" if self.number > 1 else "",
        ]
        return ", ".join(part for part in parts if part)


def words_of(state: CallState) -> str:
    """Return what is called, for a sentence."""
    return _WORDS.get(state.kind, "{}").format(state.name)


def rollout_of(trajectory: TrajectoryOfCall | None) -> str | None:
    """Return the ``rl.rollout.id``; None where it is not known."""
    return None if trajectory is None else trajectory.names[0] or trajectory.identifier


def span_ids(span: Span | None) -> tuple[int, int]:
    """Return the ids of the trace and of the span; 0 where there is none."""
    own = span.get_span_context() if span is not None else trace_api.INVALID_SPAN_CONTEXT
    return own.trace_id, own.span_id


def hang(found: CallHang, *, has_line: bool = True) -> None:
    """Report that a call does not return; on stderr where it ``has_line`` there."""
    state, place = found.state, found.place
    step, phases = steps.where().step, progress.open_phases()
    with guard("watchdog.call_hang"):
        _scope.event(
            events.RL_CALL_HANG,
            body=redaction.text(found.words, "logs"),
            severity=SeverityNumber.WARN,
            context=trace_api.set_span_in_context(state.span) if state.span is not None else None,
            attributes={
                **{name: state.values.get(name) for name in _NAMING},
                attributes.GEN_AI_TOOL_NAME: found.tool or state.values.get(attributes.GEN_AI_TOOL_NAME),
                attributes.RL_CALL_KIND: state.kind,
                attributes.RL_CALL_NAME: state.name,
                attributes.RL_HANG_DURATION: found.seconds,
                attributes.RL_HANG_LIMIT: found.limit.seconds,
                attributes.RL_CALL_USUAL_DURATION: found.limit.usual,
                attributes.RL_CALL_HANGING: found.number,
                attributes.RL_ROLLOUT_ID: rollout_of(state.trajectory),
                attributes.CODE_FUNCTION_NAME: place.function if place else None,
                attributes.CODE_FILE_PATH: redaction.text(place.file, "logs") if place else None,
                attributes.CODE_LINE_NUMBER: place.line if place else None,
                attributes.RL_RANK: process_identity.current().rank,
                attributes.RL_LOOP_ITERATION: step.iteration if step is not None else None,
                attributes.RL_PHASE: phases[-1] if phases else None,
            },
        )
        deferral.hand_over()
    if has_line:
        reports.write_line(f"otel-rl: {reports.who()}: {found.words}, it may hang")


def over(state: CallState, seconds: float, how: str, *, has_line: bool = True) -> None:
    """Report that a call which was told to hang does not, any more; ``how`` is one of ``RlCallEndingValues``."""
    rollout = rollout_of(state.trajectory)
    words = f"{words_of(state)} {_ENDINGS[how].format(seconds)}{f', in rollout {rollout}' if rollout else ''}"
    with guard("watchdog.call_hang_over"):
        _scope.event(
            events.RL_CALL_HANG_END,
            body=redaction.text(words, "logs"),
            severity=SeverityNumber.INFO,
            context=trace_api.set_span_in_context(state.span) if state.span is not None else None,
            attributes={
                attributes.RL_CALL_KIND: state.kind,
                attributes.RL_CALL_NAME: state.name,
                attributes.RL_HANG_DURATION: seconds,
                attributes.RL_CALL_ENDING: how,
                attributes.RL_ROLLOUT_ID: rollout,
                attributes.RL_RANK: process_identity.current().rank,
            },
        )
        deferral.hand_over()
    if has_line:
        reports.write_line(f"otel-rl: {reports.who()}: {words}")


def _seconds(number: float) -> str:
    return f"{number:.0f} s" if number >= _ROUNDED else f"{number:.2g} s"
