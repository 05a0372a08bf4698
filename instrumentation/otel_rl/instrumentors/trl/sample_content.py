"""Prompt and completion of a few samples of each batch, an event each: only where the user captures content.

Which samples these are says :mod:`.chosen_samples`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.inference import sample_messages
from otel_rl.instrumentors.trl.chosen_samples import chosen
from otel_rl.semconv import attributes, events
from otel_rl.telemetry.content_capture import capture

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_rl.instrumentors.trl.chosen_samples import SampleScores
    from otel_rl.telemetry import Scope


class BatchTexts(NamedTuple):
    """Prompts and completions of a batch: texts, or lists of messages."""

    prompts: Sequence[Any]
    completions: Sequence[Any]


def of_batch(prompts: Any, result: Sequence[Any], count: int) -> BatchTexts | None:
    """Return the texts of a batch; None where nobody wants content, or where the trainer returns no texts.

    Args:
        prompts: what the trainer generates from.
        result: of ``_generate``. GRPO has its completions behind the mask of tools, RLOO has no mask.
        count: samples of the batch.
    """
    if not any(capture()) or not isinstance(prompts, list) or len(prompts) != count:
        return None
    texts = (
        column for column in result[2:4] if isinstance(column, list) and len(column) == count and _is_text(column[0])
    )
    completions = next(texts, None)
    return None if completions is None else BatchTexts(prompts, completions)


def _is_text(completion: Any) -> bool:
    return isinstance(completion, str) or (
        isinstance(completion, list) and bool(completion) and isinstance(completion[0], dict)
    )


def record(scope: Scope, texts: BatchTexts, outcome: SampleScores, columns: Mapping[str, Sequence[Any]]) -> None:
    """Record the samples that are worth reading, with their values in ``columns``, which are attributes."""
    for place, reason in chosen(outcome).items():
        values = {name: column[place] for name, column in columns.items()}
        stop_reason = values.get(attributes.RL_ROLLOUT_STOP_REASON)
        values |= sample_messages.attributes_of(texts.prompts[place], texts.completions[place], stop_reason)
        values[attributes.RL_TRAJECTORY_REASON] = reason
        values[attributes.RL_LOOP_ITERATION] = outcome.iteration
        scope.event(events.RL_TRAJECTORY_CONTENT, attributes=values)
