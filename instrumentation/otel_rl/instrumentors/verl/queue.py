"""The queue between trainer and agent loops: how many prompts are in it, and how old a sample is that leaves it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.verl.trainer import scope
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RL_SAMPLE_STATE
from otel_rl.semconv.attributes import RlSampleStateValues as State

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping

#: Most prompts that are remembered of each; verl gives up some, and of more the oldest are forgotten.
_MOST = 65_536
#: Prompt -> when the trainer asked for its samples; and how old they were when it took them.
_asked: dict[str, float] = {}
_ages: dict[str, float] = {}
#: State -> the attribute of verl's buffer that holds the prompts in it, by partition.
_STATES = {
    State.PENDING: "pending_keys",
    State.RUNNING: "running_keys",
    State.FINISHED: "finished_keys",
    State.FAILED: "failure_keys",
}


def asked(_: Any, batch: Any, *__: Any, **___: Any) -> None:
    """Note when the trainer asks for the samples of prompts."""
    if scope.enabled:
        now = time.monotonic()
        _remember(_asked, ((str(prompt), now) for prompt in batch["uid"]))


def taken(buffer: Any, partition_id: str, selected_prompt_uids: Iterable[str], *_: Any, **__: Any) -> None:
    """Note how old the samples of a batch are, and what stays in the queue."""
    if not scope.enabled or partition_id != "train":
        return
    now, batch = time.monotonic(), set(selected_prompt_uids)
    _remember(_ages, ((prompt, now - _asked.pop(prompt)) for prompt in batch if prompt in _asked))
    for state, name in _STATES.items():
        scope.record(
            metrics.RL_SAMPLE_QUEUE_SIZE, len(getattr(buffer, name)[partition_id] - batch), {RL_SAMPLE_STATE: state}
        )


def age_of(prompt: str) -> float | None:
    """Return how old the samples of a prompt were, in seconds; None where that is not known."""
    return _ages.get(prompt)


def _remember(known: MutableMapping[str, float], found: Iterable[tuple[str, float]]) -> None:
    known.update(found)
    while len(known) > _MOST:
        known.pop(next(iter(known)))
