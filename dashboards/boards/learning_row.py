"""Row of the run overview: is the policy learning?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.lib import panels
from dashboards.lib.layout import Cell, Row
from dashboards.lib.names import shown
from dashboards.lib.panels import GREEN, RED, steps
from dashboards.lib.promql import (
    Match,
    latest,
    recorded,
)
from dashboards.lib.queries import PromQuery
from dashboards.rules.alerts import ENTROPY_LIMIT
from dashboards.rules.recording import ENTROPY_LEVEL
from otel_rl.semconv import attributes, metrics
from otel_rl.training.guessed_records import PREFIX

if TYPE_CHECKING:
    from otel_rl.semconv.definitions import MetricDefinition


def _scalar(
    title: str,
    description: str,
    unit: str,
    *lines: tuple[MetricDefinition, str],
    guessed: str | None = None,
    log_scale: bool = False,
    empty_when: str | None = None,
) -> Cell:
    """Return a panel of metrics; ``guessed`` is the key of the first one in a loop without a trainer."""
    values = [latest(metric) for metric, _ in lines]
    if guessed is not None:
        key = Match(attributes.RL_TRAINER_METRIC_KEY, f"{PREFIX}{guessed}")
        values[0] += f" or {latest(metrics.RL_TRAINER_METRIC, where=(key,))}"
    queries = [
        PromQuery(value, legend=legend, empty_when=empty_when) for value, (_, legend) in zip(values, lines, strict=True)
    ]
    return Cell(panels.timeseries(title, description, queries, unit=unit, log_scale=log_scale), width=6)


LEARNING = Row(
    "Learning",
    (
        _scalar(
            "Reward",
            "Mean reward of the batch and its standard deviation, as the trainer logs them; scores of a loop of your "
            "own are on the board of rollouts. The deviation is the learning signal of GRPO: near 0, all samples "
            "score alike and nothing is learnt. Reward up with length and KL up: suspect reward hacking.",
            "short",
            (metrics.RL_ENVIRONMENT_REWARD_MEAN, "mean"),
            (metrics.RL_ENVIRONMENT_REWARD_STD, "standard deviation"),
        ),
        _scalar(
            "KL to the reference",
            "How far the policy has moved, in nats per token as the trainer estimates it. A sudden climb: lower the "
            "learning rate or raise the KL coefficient, and restart from a checkpoint before the climb.",
            "short",
            (metrics.RL_TRAIN_KL, "KL"),
            empty_when="the trainer computes no KL since its coefficient is 0",
        ),
        _scalar(
            "Entropy",
            "Mean entropy of the policy per token, in nats. It should fall slowly. A cliff: exploration is gone; see "
            "the alert EntropyCollapse.",
            "short",
            (metrics.RL_TRAIN_ENTROPY, "entropy"),
        ),
        Cell(
            panels.timeseries(
                "Entropy against its highest value",
                f"Entropy as a share of the run's own maximum. Below {ENTROPY_LIMIT:.0%} for ten minutes the alert "
                "EntropyCollapse fires.",
                [PromQuery(recorded(ENTROPY_LEVEL.name), legend="share of the maximum")],
                unit="percentunit",
                minimum=0,
                maximum=1,
                thresholds=steps(RED, (ENTROPY_LIMIT, GREEN)),
            ),
            width=6,
        ),
        _scalar(
            "Completion length",
            "Mean tokens per episode. Grows without the reward: the policy pads; shrinks to a few tokens: it gives up.",
            "short",
            (metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN, "tokens"),
        ),
        _scalar(
            "Wasted samples",
            "Share of samples cut at the length limit, and of groups whose samples all scored alike. Cut samples "
            "rarely earn their reward: raise the limit. Alike groups teach nothing: prompts are too easy or too hard.",
            "percentunit",
            (metrics.RL_SAMPLE_TRUNCATED_RATIO, "truncated"),
            (metrics.RL_SAMPLE_ZERO_VARIANCE_RATIO, "groups without variance"),
        ),
        _scalar(
            "Gradient norm",
            "Norm of the gradient before clipping (log scale). Spikes that KL follows: bad batches; at 0: no signal.",
            "short",
            (metrics.RL_TRAIN_GRAD_NORM, "gradient norm"),
            guessed="grad_norm",
            log_scale=True,
        ),
        _scalar(
            "Loss",
            "Training loss. In policy-gradient methods it says little by itself; a jump or a hole (a value that is not "
            "finite is left out here, but kept in the step record) says a lot. In a loop of your own it is "
            "what backward was called on, unless the loop logs a loss.",
            "short",
            (metrics.RL_TRAIN_LOSS, "loss"),
            guessed="loss",
        ),
        _scalar(
            "Clipped tokens",
            "Share of tokens whose probability ratio was clipped. Above a few percent the updates are too large or the "
            "samples too old.",
            "percentunit",
            (metrics.RL_TRAIN_CLIP_RATIO, "clipped"),
        ),
        _scalar(
            "Learning rate",
            "The schedule as it really runs. Compare with what you meant, above all after a resume.",
            "sci",
            (metrics.RL_TRAIN_LEARNING_RATE, "learning rate"),
            guessed="learning_rate",
        ),
        Cell(
            panels.timeseries(
                "Any scalar of the trainer",
                "What the trainer logs, by its own key; choose keys at the top. Exact values are in the step records "
                "below.",
                [
                    PromQuery(
                        latest(
                            metrics.RL_TRAINER_METRIC,
                            attributes.RL_TRAINER_METRIC_KEY,
                            where=(Match(attributes.RL_TRAINER_METRIC_KEY, "$key", "=~"),),
                        ),
                        legend=shown(attributes.RL_TRAINER_METRIC_KEY),
                    )
                ],
                unit="short",
            ),
            width=12,
        ),
    ),
)
