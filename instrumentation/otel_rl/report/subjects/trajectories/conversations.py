"""What was said in a few trajectories, where the user captured content: samples of a trainer, and traces of rollouts.

A run may have recorded the content of millions. Kept are the lowest and highest rewards and some of every part of the
run; of traces those whose spans are listed.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.report.core.messages import CallMessages, Histories, Message, by_call, messages_of, plain
from otel_rl.report.core.statistics import EveryNth, Largest
from otel_rl.report.subjects.trajectories.told_messages import ToldMessages
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.tables.operations import MODEL_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Log, Span

#: Samples kept of each kind, and of all parts of the run together.
OF_A_KIND, OF_ALL_PARTS = 12, 16


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample that a trainer made in a batch. ``reason``: why its content was recorded."""

    name: str
    iteration: int | None
    rank: int | None
    reward: float | None
    reason: str
    messages: tuple[Message, ...]

    @property
    def key(self) -> tuple[str, int | None, int | None]:
        """What its row in the table of trajectories has too."""
        return self.name, self.iteration, self.rank


def samples(collected: Collected) -> list[Sample]:
    """Return samples with what was said in them, of each kind some, in the order of the steps."""
    lowest, highest = Largest[Sample](OF_A_KIND), Largest[Sample](OF_A_KIND)
    spread = EveryNth[Sample](OF_ALL_PARTS)
    for sample in map(_sample, collected.tables.events(events.RL_TRAJECTORY_CONTENT.name)):
        if sample.messages:
            spread.add(sample)
            if sample.reward is not None:
                lowest.add(-sample.reward, sample)
                highest.add(sample.reward, sample)
    kept = {id(sample): sample for kind in (lowest, highest, spread) for sample in kind.items()}
    return sorted(kept.values(), key=lambda sample: (sample.iteration or 0, sample.rank or 0, sample.name))


def _sample(log: Log) -> Sample:
    given = log.attributes
    iteration, reward = given.get(names.RL_LOOP_ITERATION), given.get(names.RL_ROLLOUT_REWARD)
    if isinstance(reward, bool) or not isinstance(reward, (int, float)) or not math.isfinite(reward):
        reward = None
    return Sample(
        str(given.get(names.RL_ROLLOUT_ID) or ""),
        iteration if isinstance(iteration, int) else None,
        log.process.rank,
        reward,
        str(given.get(names.RL_TRAJECTORY_REASON) or ""),
        tuple(by_call(messages_of(given), given)),
    )


def of_spans(spans: Iterable[Span]) -> tuple[Message, ...]:
    """Return the conversation of a trace: what each model call adds to the messages before it.

    Around it stands what the rollout's own function was given and has returned.
    """
    messages: list[Message] = []
    in_order = sorted(spans, key=lambda span: span.start)
    given = [_of_rollout(span, names.RL_ROLLOUT_INPUT, "input of the rollout") for span in in_order]
    returned = [_of_rollout(span, names.RL_ROLLOUT_OUTPUT, "output of the rollout") for span in reversed(in_order)]
    calls = [span for span in in_order if span.attributes.get(names.GEN_AI_OPERATION_NAME) in MODEL_OPERATIONS]
    by_id = {span.span_id: span for span in in_order}
    histories, told, earlier = Histories(), ToldMessages(), _Told()
    # A framework whose model calls are not recorded says it on the span of the agent.
    for span in calls if any(names.GEN_AI_OUTPUT_MESSAGES in span.attributes for span in calls) else in_order:
        of_call = histories.messages_of(span.span_id, span.attributes)
        is_known = earlier.is_told(span, of_call, by_id)
        new = told.new_of(of_call.sent, of_call.answered, is_known=is_known)
        answered = 0 if is_known else len(of_call.answered)
        before, after = new[: len(new) - answered], new[len(new) - answered :]
        of_this = [*before, *of_call.sent_note, *after, *of_call.answered_note]
        messages += by_call(of_this, span.attributes, _agent(span, by_id))
    return tuple(message for message in (*given, *messages, *returned) if message is not None)


class _Told:
    """The calls that were told: another instrumentor may have a second span for one, with the same answer."""

    def __init__(self) -> None:
        self._answered: dict[str, tuple[Span, list[Message]]] = {}

    def is_told(self, span: Span, of_call: CallMessages, by_id: Mapping[str, Span]) -> bool:
        """Return whether a call around this span has told the same."""
        if not of_call.answered:
            return False
        is_inside = any(around.span_id in self._answered for around in _around(span, by_id))
        is_second = is_inside or any(
            known.scope != span.scope and span.end <= known.end and answered == of_call.answered
            for known, answered in self._answered.values()
        )
        self._answered[span.span_id] = span, of_call.answered
        return is_second


def _around(span: Span, by_id: Mapping[str, Span]) -> Iterator[Span]:
    """Yield the spans around a span, the next one first."""
    seen = {span.span_id}
    while (around := by_id.get(span.parent_id)) is not None and around.span_id not in seen:
        seen.add(around.span_id)
        yield around
        span = around


def _agent(span: Span, by_id: Mapping[str, Span]) -> str:
    """Return the name of the agent that a call is inside of."""
    named = (around.attributes.get(names.GEN_AI_AGENT_NAME) for around in _around(span, by_id))
    return next((name for name in named if isinstance(name, str)), "")


def _of_rollout(span: Span, name: str, role: str) -> Message | None:
    encoded = span.attributes.get(name)
    if not isinstance(encoded, str):
        return None
    try:
        return Message(role, plain(json.loads(encoded)))
    except (ValueError, RecursionError):
        return Message(role, encoded)
