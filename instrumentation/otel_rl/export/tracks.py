"""On which track a span is drawn: steps, rollouts, each engine, each tool, each thread of its process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.semconv import attributes as names
from otel_rl.semconv import spans
from otel_rl.semconv.attributes import GenAiOperationNameValues as Operation
from otel_rl.semconv.attributes import RlRoleValues as Role
from otel_rl.store.tables.operations import MODEL_OPERATIONS

if TYPE_CHECKING:
    from otel_rl.store.reader import Span

#: Most tracks of a process; further tools, engines and threads share one.
MOST = 200


class Track(NamedTuple):
    """A track of a process; those with a lower ``place`` come first."""

    place: int
    label: str


RUN = Track(0, "run")
STEPS = Track(1, "steps")
ROLLOUTS = Track(2, "rollouts")
SERVING = Track(3, "engine")
PROGRAM = Track(7, "program")
_ENGINE, _TOOL, _THREAD = 4, 5, 6
OTHERS = Track(8, "others")

_OF_RUN = {spans.RL_RUN.type, spans.RL_RUN_PART.type}
_STEPS = {spans.RL_LOOP.type, spans.RL_RANK_STEP.type}


def category(span: Span) -> str:
    """Return what a span is, in one word."""
    if span.name in _STEPS:
        return "step"
    if span.name == spans.RL_ROLLOUT.type:
        return "rollout"
    if span.name == spans.RL_REWARD.type:
        return "reward"
    operation = span.attributes.get(names.GEN_AI_OPERATION_NAME)
    if operation == Operation.EXECUTE_TOOL or names.GEN_AI_TOOL_NAME in span.attributes:
        return "tool"
    if isinstance(operation, str) and operation in MODEL_OPERATIONS:
        return "call"
    return "phase" if names.RL_PHASE in span.attributes else "span"


def own_track(span: Span, kind: str) -> Track | None:
    """Return the track of a span, None where it is drawn with its parent."""
    if span.name in _OF_RUN:
        return RUN
    if kind == "step":
        return _steps(span)
    if kind == "rollout":
        return ROLLOUTS
    if kind == "tool":
        return Track(_TOOL, f"tool {span.attributes.get(names.GEN_AI_TOOL_NAME) or span.name}")
    if kind == "call":
        return SERVING if span.is_server else _called(span)
    return None


def fallback(span: Span, kind: str) -> Track:
    """Return the track of a span whose parent was not recorded in its process."""
    if kind in ("phase", "reward"):
        return STEPS
    thread = span.attributes.get(names.THREAD_NAME) or span.attributes.get("thread.id")
    if thread not in (None, ""):
        return Track(_THREAD, f"thread {thread}")
    return SERVING if span.process.identity(names.RL_ROLE) == Role.ENGINE else PROGRAM


def stages_of(span: Span, server: str) -> Track:
    """Return the track of the requests that a call sent to a prefill server or a decode server."""
    return Track(_ENGINE, f"{_called(span).label} [{server}]")


def _steps(span: Span) -> Track:
    loop = span.attributes.get(names.RL_LOOP_NAME)
    return Track(STEPS.place, f"steps of {loop}") if loop else STEPS


def _called(span: Span) -> Track:
    address, port = span.attributes.get(names.SERVER_ADDRESS), span.attributes.get(names.SERVER_PORT)
    if address:
        return Track(_ENGINE, f"engine {address}:{port}" if port else f"engine {address}")
    model = span.attributes.get(names.GEN_AI_REQUEST_MODEL)
    return Track(_ENGINE, f"model {model}" if model else "model")
