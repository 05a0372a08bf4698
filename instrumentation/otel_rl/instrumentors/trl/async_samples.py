"""One row per sample that ``AsyncGRPOTrainer`` trains on.

Another process makes them, and the trainer takes them from a queue. They are seen where the collator of rank 0 sums
up a micro-batch for the trainer's log (``DataCollatorForRollout._log_metrics``, TRL 1.16). The samples of all ranks are
there, without their texts and versions. Too old ones have been dropped before; the trainer logs how many. The loader is
one micro-batch ahead of the step. A conversation that the worker had to split is several samples.
"""

from __future__ import annotations

import math
from itertools import count
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.trl.profiling import scope
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlRolloutStatusValues, RlTrajectoriesSourceValues
from otel_rl.training import rewards, trainer_loop, trajectories, trajectory_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_REWARD, _OF_FUNCTION = "reward", "rewards/"
_numbers = count()


def taken(_result: Any, _collator: Any, _rows: Any = None, *given: Any, **named: Any) -> None:
    """``_log_metrics(rows, all_examples, padded)`` has summed up the samples of a micro-batch."""
    examples = named.get("all_examples", given[0] if given else None)
    if not scope.enabled or not isinstance(examples, list) or not examples:
        return
    step = trainer_loop.current().step
    iteration = step.iteration if step is not None else None
    columns = _columns(examples, iteration)
    rewards.record(scope, columns.scores)
    source = RlTrajectoriesSourceValues.TRAINER
    trajectories.add_batch(scope, source, iteration, len(examples), lambda: columns)


def _columns(examples: Sequence[Mapping[str, Any]], iteration: int | None) -> trajectory_columns.Columns:
    """Plain numbers at once: the arrays are the program's."""
    trained = [int(example["completion_mask"].sum()) for example in examples]
    numbers = [str(next(_numbers)) for _ in examples]
    columns: dict[str, Sequence[Any]] = {
        attributes.RL_ROLLOUT_ID: numbers if iteration is None else [f"{iteration}-{number}" for number in numbers],
        attributes.RL_GROUP_ID: [str(example["group_id"]) for example in examples],
        attributes.RL_ROLLOUT_INPUT_TOKENS: [
            len(example["input_ids"]) - tokens for example, tokens in zip(examples, trained, strict=True)
        ],
        attributes.RL_ROLLOUT_OUTPUT_TOKENS: trained,
        attributes.RL_ROLLOUT_REWARD: [_finite(example["metrics"].get(_REWARD)) for example in examples],
        attributes.RL_ROLLOUT_ADVANTAGE: [float(example["advantage"]) for example in examples],
        attributes.RL_ROLLOUT_STATUS: [RlRolloutStatusValues.FINISHED] * len(examples),
        attributes.RL_ROLLOUT_TRAINED: [True] * len(examples),
    }
    functions = dict.fromkeys(key for example in examples for key in example["metrics"] if key.startswith(_OF_FUNCTION))
    scores = {
        key.removeprefix(_OF_FUNCTION): [_finite(example["metrics"].get(key)) for example in examples]
        for key in functions
    }
    return trajectory_columns.Columns(columns, scores)


def _finite(value: Any) -> float | None:
    """None for a sample that a function has no score for, which the trainer keeps as NaN."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
