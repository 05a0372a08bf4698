"""Content of a few calls of models and tools, where the user captured it.

A run may have the content of millions of calls. The page keeps the slowest, the latest failed, the latest, and a sample
of the whole run, besides the calls of the rollouts that it draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.report.core import human
from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.messages import Conversation, messages_of, of_tool, shortened
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import GenAiOperationNameValues as Operation
from otel_rl.store.reader.otlp_values import int_or_none
from otel_rl.store.tables.load import CONTENT, MODEL, TOOL
from otel_rl.store.tables.operations import CANCELLED, MODEL_OPERATIONS, error_of, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.messages import Message
    from otel_rl.store.reader import Log, Span

#: Calls kept of each kind (the slowest, failed, the latest), and of all parts of the run together.
OF_A_KIND, OF_ALL_PARTS = 15, 16

_DETAILS = events.GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS.name
_HAS = """instr(attributes, '"{}":')"""
#: Events are of the calls whose spans have no content.
_CHOSEN = f"""
WITH spans AS (SELECT span, trace, ended, seconds, error <> '' AS has_failed FROM call JOIN callee USING (callee)
               WHERE has_content AND kind = ?1),
     c AS (SELECT * FROM spans UNION ALL
           SELECT span, '', time, 0, {_HAS.format(names.ERROR_TYPE)} FROM event
           WHERE name = '{_DETAILS}' AND ({" OR ".join(map(_HAS.format, CONTENT))})
                 AND ?1 = '{MODEL}' AND NOT EXISTS (SELECT 1 FROM spans)),
     run AS (SELECT count(*) AS number, min(ended) AS first, max(ended) - min(ended) + 1 AS length FROM c)
SELECT span, trace, number FROM run, (
  SELECT * FROM (SELECT span, trace FROM c WHERE has_failed ORDER BY ended DESC, span LIMIT {OF_A_KIND}) UNION
  SELECT * FROM (SELECT span, trace FROM c ORDER BY seconds DESC, ended DESC, span LIMIT {OF_A_KIND}) UNION
  SELECT * FROM (SELECT span, trace FROM c ORDER BY ended DESC, span LIMIT {OF_A_KIND}) UNION
  SELECT span, trace FROM (SELECT span, trace, min(ended) FROM c, run
                           GROUP BY (ended - first) * {OF_ALL_PARTS} / length))"""


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


class KeptCalls(NamedTuple):
    """How many calls of a kind have content, and those that the page shows: failed ones first, then the slowest."""

    number: int
    texts: list[CallText]


@asked_once
def kept(collected: Collected) -> dict[str, KeptCalls]:
    """Return the calls whose content the page shows, of tools and of models; empty if no content was captured."""
    chosen = {row["span"]: (kind, row) for kind in (MODEL, TOOL) for row in collected.tables.rows(_CHOSEN, kind)}
    traces = {row["trace"] for _, row in chosen.values()} - {""}
    found = {log.span_id: _of_event(log) for log in collected.tables.events(_DETAILS) if log.span_id in chosen}
    if traces:
        found |= {span.span_id: of_span(span) for span in collected.reader.traces(traces) if span.span_id in chosen}
    texts = sorted(filter(None, found.values()), key=lambda call: (not call.error, -(call.seconds or 0.0)))
    of_kinds: dict[str, KeptCalls] = {}
    for text in texts:
        kind, row = chosen[text.span_id]
        of_kinds.setdefault(kind, KeptCalls(row["number"], [])).texts.append(text)
    return of_kinds


def of_spans(spans: list[Span]) -> Iterator[CallText]:
    """Return the calls with content among some spans."""
    for span in spans:
        text = of_span(span) if _is_call(span) else None
        if text is not None:
            yield text


def of_span(span: Span) -> CallText | None:
    """Return the content of a call; None without any."""
    ended = CANCELLED if outcome_of(span) == CANCELLED else error_of(span)
    return _of(span, span.name, span.seconds, ended)


def _of_event(log: Log) -> CallText | None:
    get = log.attributes.get
    name = f"{get(names.GEN_AI_OPERATION_NAME)} {get(names.GEN_AI_REQUEST_MODEL)}"
    return _of(log, name, None, str(get(names.ERROR_TYPE) or ""))


def _of(record: Span | Log, name: str, seconds: float | None, error: str) -> CallText | None:
    content = {key: record.attributes[key] for key in CONTENT if key in record.attributes}
    step = int_or_none(record.attributes.get(names.RL_LOOP_ITERATION))
    text = CallText(name, record.span_id, seconds, step, record.process.rank, error, content)
    return text if text.messages else None


def _is_call(span: Span) -> bool:
    operation = span.attributes.get(names.GEN_AI_OPERATION_NAME)
    return operation in MODEL_OPERATIONS or (operation == Operation.EXECUTE_TOOL and not span.is_server)
