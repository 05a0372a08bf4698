"""Samples of a dump, and the records that a recorded run has of them: rows, and texts if content is captured."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import LogRecord

from otel_rl.inference import sample_messages
from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import RlTrajectoriesSourceValues as Source
from otel_rl.telemetry.attribute_values import number
from otel_rl.telemetry.content_capture import capture
from otel_rl.training import prompt_ids, trajectory_bodies
from otel_rl.training.trajectory_columns import Columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Name of the reward: no dump has the name of its function.
REWARD = "reward"
#: Columns of a row that stand beside its text.
_BESIDE_TEXT = (attributes.RL_ROLLOUT_ID, attributes.RL_ROLLOUT_REWARD)


@dataclass(slots=True)
class DumpedSample:
    """What a dump has of one trajectory; prompt and completion are texts or lists of messages."""

    step: int | None
    prompt: Any
    completion: Any
    columns: dict[str, Any]
    metrics: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)

    def add_reward(self, value: Any, parts: Mapping[str, Any]) -> None:
        """Add the reward, and the numbers among its parts, which count nothing."""
        given = {REWARD: number(value), **{f"{REWARD}/{name}": number(part) for name, part in parts.items()}}
        self.scores = {name: score for name, score in given.items() if score is not None}
        self.columns[attributes.RL_ROLLOUT_REWARD] = self.scores.get(REWARD)


def records(samples: Sequence[DumpedSample], loop: str) -> Iterator[LogRecord]:
    """Yield the records of samples of one step: rows first."""
    # As the hooks of slime and verl record them.
    of_loop: dict[str, Any] = {
        attributes.RL_LOOP_ITERATION: samples[0].step, attributes.RL_TRAJECTORIES_STEP: samples[0].step,
        attributes.RL_LOOP_NAME: loop, attributes.RL_TRAJECTORIES_SOURCE: Source.ROLLOUT,
    }  # fmt: skip
    for body in trajectory_bodies.make([_columns(samples)], [len(samples)])[1]:
        of_loop[attributes.RL_TRAJECTORIES_STARTED] = len(body[attributes.RL_ROLLOUT_ID])
        yield _record(events.RL_TRAJECTORIES.name, of_loop, body)
    for sample in samples if any(capture()) else ():
        prompt, completion, get = sample.prompt, sample.completion, sample.columns.get
        if isinstance(prompt, str | list) and isinstance(completion, str | list):
            said = sample_messages.attributes_of(prompt, completion, get(attributes.RL_ROLLOUT_STOP_REASON))
            place = {attributes.RL_LOOP_ITERATION: sample.step, **{name: get(name) for name in _BESIDE_TEXT}}
            yield _record(events.RL_TRAJECTORY_CONTENT.name, {**said, **place})


def _record(event: str, given: Mapping[str, Any], body: Any = None) -> LogRecord:
    known = {name: value for name, value in given.items() if value is not None}
    # The time is that of the import: no dump has those of its samples.
    return LogRecord(observed_timestamp=time.time_ns(), event_name=event, attributes=known, body=body)


def _columns(samples: Sequence[DumpedSample]) -> Columns:
    values, scores, metrics = (
        {key: [row.get(key) for row in rows] for key in dict.fromkeys(key for row in rows for key in row)}
        for rows in ([getattr(one, kind) for one in samples] for kind in ("columns", "scores", "metrics"))
    )
    texts = prompt_ids.texts([sample.prompt for sample in samples], len(samples))
    values[attributes.RL_SAMPLE_ID] = prompt_ids.ids(texts) if texts else []
    return Columns(values, scores, {name: 0.0 for name in scores if "/" in name}, metrics=metrics)
