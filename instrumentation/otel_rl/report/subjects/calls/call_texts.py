"""Content of a few calls of models and tools, where the user captured it.

A run may have the content of millions of calls. The page keeps the slowest, the latest failed, the latest, and a sample
of the whole run, besides the calls of the rollouts that it draws.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human
from otel_rl.report.core.messages import Conversation, messages_of, of_tool, shortened
from otel_rl.report.core.statistics import EveryNth, Largest
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import GenAiOperationNameValues as Operation
from otel_rl.store.reader.otlp_values import int_or_none
from otel_rl.store.tables.load import CONTENT, MODEL, TOOL
from otel_rl.store.tables.operations import MODEL_OPERATIONS, error_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.report.core.messages import Message
    from otel_rl.store.reader import Log, Span

#: Calls kept of each kind (the slowest, failed, the latest), and of all parts of the run together.
OF_A_KIND, OF_ALL_PARTS = 15, 16


@dataclass(frozen=True, slots=True)
class CallText:
    """A call with its content, encoded as it was recorded; ``seconds`` is None where only its event has content."""

    name: str
    span_id: str
    seconds: float | None
    iteration: int | None
    rank: int | None
    error: str
    content: dict[str, Any]

    @property
    def anchor(self) -> str:
        """Id of its place on the page."""
        return f"call-{self.span_id}"

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was said."""
        return shortened([*messages_of(self.content), *of_tool(self.content)])

    def conversation(self, anchor: str = "") -> Conversation:
        """Return it as the page shows it, with an id of its own where it is shown a second time."""
        parts = [self.name]
        parts += [human.duration(self.seconds)] if self.seconds is not None else []
        parts += [f"step {self.iteration}"] if self.iteration is not None else []
        parts += [f"rank {self.rank}"] if self.rank is not None else []
        parts += [self.error] if self.error else []
        return Conversation(", ".join(parts), anchor or self.anchor, self.messages)


class _Kept:
    """The calls of one kind that are kept, and how many had content."""

    def __init__(self) -> None:
        self.number = 0
        self._slowest: Largest[CallText] = Largest(OF_A_KIND)
        self._failed: deque[CallText] = deque(maxlen=OF_A_KIND)
        self._latest: deque[CallText] = deque(maxlen=OF_A_KIND)
        self._spread: EveryNth[CallText] = EveryNth(OF_ALL_PARTS)

    def add(self, call: CallText) -> None:
        self.number += 1
        self._slowest.add(call.seconds or 0.0, call)
        self._latest.append(call)
        self._spread.add(call)
        if call.error:
            self._failed.append(call)

    def items(self) -> list[CallText]:
        kinds = (self._failed, self._slowest.items(), self._latest, self._spread.items())
        return list({call.span_id: call for kind in kinds for call in kind}.values())


class CallTexts:
    """The calls of models and tools whose content the page shows."""

    def __init__(self) -> None:
        self._kept = {MODEL: _Kept(), TOOL: _Kept()}
        #: Model calls whose content came as events; where spans have it too, these are the same calls.
        self._events = _Kept()
        #: Calls of the rollouts that are drawn, in the order of these.
        self.drawn: list[list[CallText]] = []

    def add_span(self, span: Span) -> None:
        """Take in a call with content; others are ignored."""
        kind = _kind(span)
        if kind:
            text = of_span(span)
            if text is not None:
                self._kept[kind].add(text)

    def add_log(self, log: Log) -> None:
        """Take in the content of a model call that was recorded as an event."""
        if log.event != events.GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS.name:
            return
        get = log.attributes.get
        content = _content(log.attributes)
        if content:
            name = f"{get(names.GEN_AI_OPERATION_NAME)} {get(names.GEN_AI_REQUEST_MODEL)}"
            step, error = int_or_none(get(names.RL_LOOP_ITERATION)), str(get(names.ERROR_TYPE) or "")
            self._events.add(CallText(name, log.span_id, None, step, log.process.rank, error, content))

    def number(self, kind: str) -> int:
        """Return how many calls had content."""
        return self._of(kind).number

    def items(self, kind: str) -> list[CallText]:
        """Return the calls that are kept: failed ones, the slowest, the latest, and others."""
        return self._of(kind).items()

    @property
    def is_captured(self) -> bool:
        """True where some call has content."""
        return any(self.number(kind) for kind in self._kept)

    def _of(self, kind: str) -> _Kept:
        return self._events if kind == MODEL and not self._kept[MODEL].number else self._kept[kind]


def of_spans(spans: list[Span]) -> Iterator[CallText]:
    """Return the calls with content among some spans."""
    for span in spans:
        text = of_span(span) if _kind(span) else None
        if text is not None:
            yield text


def of_span(span: Span) -> CallText | None:
    """Return the content of a call; None without any."""
    content = _content(span.attributes)
    if not content:
        return None
    step = int_or_none(span.attributes.get(names.RL_LOOP_ITERATION))
    return CallText(span.name, span.span_id, span.seconds, step, span.process.rank, error_of(span), content)


def _kind(span: Span) -> str:
    operation = span.attributes.get(names.GEN_AI_OPERATION_NAME)
    if operation == Operation.EXECUTE_TOOL:
        return "" if span.is_server else TOOL
    return MODEL if operation in MODEL_OPERATIONS else ""


def _content(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in CONTENT if name in given}
