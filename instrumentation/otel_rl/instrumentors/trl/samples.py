"""One row per sample that TRL's online trainers make and score, of what the trainer has in the host's memory.

The trainer's thread takes lengths and last tokens of lists, and the advantages once the trainer has read them itself.
All else is computed where the record is made, on an I/O thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.instrumentors.trl import chosen_samples, sample_content
from otel_rl.instrumentors.trl.profiling import scope
from otel_rl.semconv import attributes, spans
from otel_rl.semconv.attributes import (
    RlAdvantageEstimatorValues,
    RlRolloutStatusValues,
    RlTrajectoriesSourceValues,
)
from otel_rl.telemetry import guard
from otel_rl.training import lowest_rewards, prompt_ids, trainer_loop, trajectories, trajectory_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.context import Context

    from otel_rl.training import steps

#: Why generation ended, in the words of OpenAI's protocol.
STOP, LENGTH = "stop", "length"
#: Why the trainer leaves a sample out of its loss (``mask_truncated_completions``).
TRUNCATED = "truncated"
#: Places in what ``_generate`` of GRPO returns. RLOO has the completions where GRPO has the mask of tools.
_PROMPTS, _COMPLETIONS, _TOOL_MASKS, _MESSAGES = range(4)


#: How GRPO adds up its rewards: their weighted sum.
_SUM = "sum_then_normalize"
_ESTIMATORS = {"group": RlAdvantageEstimatorValues.GRPO, "none": RlAdvantageEstimatorValues.DR_GRPO}


class _Made(NamedTuple):
    """Samples of this process: what is known before they are scored."""

    trainer: int
    inputs: list[int]
    outputs: list[int]
    ended: list[bool]
    tool_masks: Sequence[Sequence[int]] | None
    tool_calls: list[int] | None
    tool_errors: Mapping[int, int] | None
    texts: sample_content.BatchTexts | None
    prompts: list[prompt_ids.PromptTexts] | None


class _Batch(NamedTuple):
    """The same, scored, and its place among the samples of the iteration."""

    made: _Made
    scores: Mapping[str, Sequence[Any]]
    weights: Sequence[float]
    advantages: Sequence[float] | None
    iteration: int | None
    policy_version: int | None
    first: int
    generations: int
    masks_truncated: bool
    estimator: str


class Samples:
    """Follows a batch from its generation to its scores."""

    def __init__(self) -> None:
        self._made: _Made | None = None
        #: Step of the latest batch, and the samples of all ranks before the next one.
        self._step: steps.Step | None = None
        self._before = 0
        #: Failed calls by the place of the sample, of the batch being made; None where they cannot be told apart.
        self.tool_errors: Mapping[int, int] | None = None

    def sampled(self, trainer: Any, result: Any, prompts: Any = None) -> None:
        """``_generate`` has returned ``result`` for ``prompts``: texts, or lists of messages."""
        self._made = None
        tool_errors, self.tool_errors = self.tool_errors, None
        if (
            not getattr(trainer, "reward_func_names", ())
            or not isinstance(result, tuple)
            or len(result) <= _COMPLETIONS
        ):
            return
        inputs, completions = result[_PROMPTS], result[_COMPLETIONS]
        if not _are_lists(inputs) or not _are_lists(completions) or len(inputs) != len(completions):
            return
        ends = _ends(trainer)
        masks: Any = result[_TOOL_MASKS] if len(result) > _MESSAGES else None
        if not _are_lists(masks) or len(masks) != len(completions):
            masks = None
        self._made = _Made(
            id(trainer),
            [len(ids) for ids in inputs],
            [len(ids) for ids in completions],
            [bool(ids) and ids[-1] in ends for ids in completions],
            masks,
            None if masks is None else _tool_calls(result[_MESSAGES]),
            tool_errors,
            sample_content.of_batch(prompts, result, len(completions)),
            prompt_ids.texts(prompts, len(completions)),
        )

    def scored(self, trainer: Any, output: Any, scores: Mapping[str, Sequence[Any]] | None) -> None:
        """``_generate_and_score_completions`` returns ``output``; the trainer has read the advantages itself."""
        made, self._made = self._made, None
        loop = trainer_loop.current()
        if made is None or made.trainer != id(trainer) or not scope.enabled or loop.is_open(spans.RL_EVALUATE):
            return
        step = loop.step
        iteration = step.iteration if step is not None else None
        accelerator, count = trainer.accelerator, len(made.inputs)
        if step is not self._step:
            self._step, self._before = step, 0
        first = self._before + accelerator.process_index * count
        self._before += accelerator.num_processes * count
        batch = _Batch(
            made,
            scores or {},
            getattr(trainer.args, "reward_weights", None) or (),
            _advantages(output, count),
            iteration,
            getattr(trainer.state, "global_step", None),
            first,
            getattr(trainer, "num_generations", 0),
            bool(getattr(trainer, "mask_truncated_completions", False)),
            _estimator(trainer, is_only_batch=first < accelerator.num_processes * count),
        )
        if made.texts is not None:
            _record_content(made.texts, batch)
            # The rows wait for the end of the step: texts, and images in them, are the program's.
            batch = batch._replace(made=made._replace(texts=None))
        source = RlTrajectoriesSourceValues.TRAINER
        context = step.context if step is not None else trajectories.NO_CONTEXT
        trajectories.add_batch(scope, source, iteration, count, lambda: _recorded(batch, context))


def _record_content(texts: sample_content.BatchTexts, batch: _Batch) -> None:
    """At once: the program may change its messages later."""
    columns = _columns(batch).values
    sample_content.record(scope, texts, _outcome(batch, columns), columns)


def _recorded(batch: _Batch, context: Context) -> trajectory_columns.Columns:
    """Return the columns of the record, and on the way the scores of chosen samples as events; on an I/O thread."""
    columns = _columns(batch)
    with guard("trl.evaluations"):
        chosen_samples.record_scores(scope, _outcome(batch, columns.values), columns, context)
    return columns


def _outcome(batch: _Batch, columns: Mapping[str, Sequence[Any]]) -> chosen_samples.SampleScores:
    return chosen_samples.SampleScores(
        columns[attributes.RL_ROLLOUT_REWARD],
        columns[attributes.RL_ROLLOUT_OUTPUT_TOKENS],
        batch.made.tool_errors or {},
        batch.iteration,
    )


def _are_lists(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and isinstance(values[0], list)


def _ends(trainer: Any) -> set[Any]:
    """Tokens that end a completion; what ends otherwise was cut off. As the trainers look for it themselves."""
    tokens = getattr(trainer, "_tokenizer", None)
    several = getattr(trainer, "eos_token_ids", None) or [getattr(trainer, "eos_token_id", None)]
    return {*several, getattr(trainer, "pad_token_id", None), getattr(tokens, "pad_token_id", None)} - {None}


def _estimator(trainer: Any, *, is_only_batch: bool) -> str:
    """Return the formula of the advantages, from rewards that are weighted sums; empty where it is another one.

    As ``_generate_and_score_completions`` of TRL 0.27 to 1.16 has it.
    """
    settings = trainer.args
    if hasattr(trainer, "scale_rewards"):
        if getattr(trainer, "multi_objective_aggregation", _SUM) != _SUM:
            return ""
        # The report knows the batch by its iteration.
        by_batch = RlAdvantageEstimatorValues.GRPO_BATCH if is_only_batch else ""
        scale = trainer.scale_rewards
        return _ESTIMATORS.get(scale, "") if scale != "batch" else by_batch
    # What RLOO adds to the rewards, or does to the advantages, is not in the record.
    changed = (
        getattr(settings, "beta", 1.0),
        getattr(settings, "normalize_advantages", True),
        getattr(settings, "reward_clip_range", None),
    )
    return "" if any(changed) else RlAdvantageEstimatorValues.RLOO


def _tool_calls(completions: Any) -> list[int] | None:
    """Results of tools by sample."""
    if not _are_lists(completions):
        return None
    return [
        sum(1 for message in messages if isinstance(message, dict) and message.get("role") == "tool")
        for messages in completions
    ]


def _advantages(output: Any, count: int) -> Sequence[float] | None:
    """Read after the trainer has read them for its own log: nothing is computed any more, and nothing waits."""
    advantages: Any = output.get("advantages") if isinstance(output, dict) else None
    if getattr(advantages, "shape", None) != (count,):
        return None
    values: list[float] = advantages.tolist()
    return values


def _columns(batch: _Batch) -> trajectory_columns.Columns:
    """Return the columns of the record, and the scores by reward function; on an I/O thread."""
    made = batch.made
    count = len(made.inputs)
    # Ids of samples and groups are the same on every rank.
    numbers = range(batch.first, batch.first + count)
    of_iteration = "" if batch.iteration is None else f"{batch.iteration}-"
    left_out = [batch.masks_truncated and not ended for ended in made.ended]
    columns: dict[str, Sequence[Any]] = {
        attributes.RL_ROLLOUT_ID: [f"{of_iteration}{number}" for number in numbers],
        attributes.RL_ROLLOUT_INPUT_TOKENS: made.inputs,
        attributes.RL_ROLLOUT_OUTPUT_TOKENS: made.outputs,
        attributes.RL_ROLLOUT_STOP_REASON: [STOP if ended else LENGTH for ended in made.ended],
        attributes.RL_ROLLOUT_STATUS: [
            RlRolloutStatusValues.DISCARDED if out else RlRolloutStatusValues.FINISHED for out in left_out
        ],
        attributes.RL_ROLLOUT_DISCARD_REASON: [TRUNCATED if out else None for out in left_out],
        attributes.RL_ROLLOUT_TRAINED: [not out for out in left_out],
    }
    if made.prompts is not None:
        columns[attributes.RL_SAMPLE_ID] = prompt_ids.ids(made.prompts)
    if batch.generations:
        columns[attributes.RL_GROUP_ID] = [f"{of_iteration}{number // batch.generations}" for number in numbers]
    if batch.policy_version is not None:
        columns[attributes.RL_POLICY_VERSION] = [str(batch.policy_version)] * count
    if batch.advantages is not None:
        columns[attributes.RL_ROLLOUT_ADVANTAGE] = batch.advantages
    if made.tool_masks is not None:
        # 1 for what the model made, 0 for what a tool answered.
        columns[attributes.RL_ROLLOUT_OUTPUT_TOKENS] = [sum(mask) for mask in made.tool_masks]
        columns[attributes.RL_ROLLOUT_TURNS] = [_turns(mask) for mask in made.tool_masks]
    rewards = _rewards(batch, count)
    columns[attributes.RL_ROLLOUT_REWARD] = rewards
    lowest_rewards.known.add(batch.scores, rewards)
    lowest = lowest_rewards.known.lowest(batch.scores)
    _add_tools(columns, made, rewards, lowest)
    weights = dict(zip(batch.scores, batch.weights, strict=False))
    has_advantages = batch.advantages is not None
    return trajectory_columns.Columns(
        columns, batch.scores, weights, batch.estimator if has_advantages else None, batch.generations or None
    )


def _add_tools(columns: dict[str, Sequence[Any]], made: _Made, rewards: Sequence[float | None], lowest: float) -> None:
    if made.tool_calls is not None:
        columns[attributes.RL_ROLLOUT_TOOL_CALLS] = made.tool_calls
    if made.tool_errors is not None:
        errors = [made.tool_errors.get(number, 0) for number in range(len(rewards))]
        columns[attributes.RL_ROLLOUT_TOOL_ERRORS] = errors
        suspect = [(reward == lowest and bool(failed)) or None for reward, failed in zip(rewards, errors, strict=True)]
        columns[attributes.RL_ROLLOUT_SUSPECT] = suspect


def _turns(mask: Sequence[int]) -> int:
    """Stretches of a completion that the model made."""
    return sum(1 for before, now in zip((0, *mask), mask, strict=False) if now and not before)


def _rewards(batch: _Batch, count: int) -> list[float | None]:
    """Return the weighted sum of the scores that each sample got; None for a sample without any."""
    weights = [*batch.weights, *[1.0] * (len(batch.scores) - len(batch.weights))]
    totals: list[float | None] = [None] * count
    for weight, scores in zip(weights, batch.scores.values(), strict=False):
        for place, score in enumerate(scores):
            if score == score:  # noqa: PLR0124 - false for NaN only, which says that the function does not apply
                totals[place] = (totals[place] or 0.0) + weight * score
    return totals


samples = Samples()
