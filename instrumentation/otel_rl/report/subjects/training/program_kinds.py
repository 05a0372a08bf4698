"""Kinds of programs: for each, what the page shows first, and what a reader should look for.

One table: :data:`KINDS`. The kind of a run follows from its algorithm, else from its system, else from the keys that it
logged, else from what it called.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from otel_rl.report.core.summary import first_value
from otel_rl.report.subjects.calls import rollouts, statistics
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlAlgorithmValues as Algorithm
from otel_rl.training.key_categories import TRAINER_PREFIX
from otel_rl.training.metric_keys import CANONICAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.report.core.collected import Collected


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart: keys that belong to it, by pattern, the most telling first, and what to look for.

    Keys whose metric of the registry is ``gauge`` belong to it too.
    """

    title: str
    patterns: tuple[str, ...]
    hint: str
    gauge: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """A key figure: the first curve of a panel, or the one whose key has this pattern."""

    title: str
    panel: Panel
    pattern: str = ""
    is_share: bool = False


@dataclass(frozen=True, slots=True)
class ProgramKind:
    """What a kind of program is known by, and what its page shows first.

    Attributes:
        name: for people.
        algorithms: values of ``rl.algorithm``.
        systems: values of ``rl.system.name``, of a run without an algorithm.
        keys: patterns of logged keys, any of which is enough, of a run with neither.
        metric: of the registry; a logged key that has it is enough, too.
        panels: charts in their order; those of other kinds follow where their keys were logged.
        cards: key figures in their order.
        sections: sections of the page that come first.
        scores_answers: whether it learns from scores of its own model's answers.
    """

    name: str
    algorithms: frozenset[str] = frozenset()
    systems: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()
    metric: str = ""
    panels: tuple[Panel, ...] = ()
    cards: tuple[Card, ...] = ()
    sections: tuple[str, ...] = ()
    scores_answers: bool = False


_LOSS = (r"(train/)?loss", r"(.*/)?(pg|policy|policy_gradient|actor)_loss", r"(.*/)?(vf|value|critic)_loss")
_EVAL_LOSS = r"eval[/_]loss"
_LOSSES = (*_LOSS, _EVAL_LOSS)


#: As programs name them that log themselves. Transformers has one `train_loss`, the mean of the run.
_LOSSES_OF_PROGRAMS = (r"train[/_]loss(_step|_epoch)?", r"val(id|idation)?[/_]loss(_epoch)?")


def _loss(hint: str, more: tuple[str, ...] = ()) -> Panel:
    return Panel("Loss", (*_LOSSES, *more), hint, metrics.RL_TRAIN_LOSS.name)


REWARD = Panel(
    "Reward",
    (
        r"(train/)?reward",
        r"critic/(rewards|score)/mean",
        r".*\breward(s?/|_)mean",
        r"objective/scores",
        r"rollout/ep_rew_mean",
        r"charts/episodic_return",
        r"environment/return_mean",
        r"eval/mean_reward",
        r"(eval|val)[/_](.*/)?reward(/mean)?",
    ),
    "should rise; flat means no signal",
    metrics.RL_ENVIRONMENT_REWARD_MEAN.name,
)
KL = Panel(
    "KL divergence",
    (r"(.*/)?(approx_|ppo_|policy_|reference_)?kl(_?loss|_?div(ergence)?)?(/mean|_avg)?",),
    "small is healthy, a jump means the policy ran off",
    metrics.RL_TRAIN_KL.name,
)
_ENTROPY = (r"(.*/)?(policy_)?entropy(_loss|/mean|_avg)?", r"eval_entropy")
ENTROPY = Panel("Entropy", _ENTROPY, "falls slowly; near zero means collapse", metrics.RL_TRAIN_ENTROPY.name)
CONFIDENCE = Panel(
    "Entropy", _ENTROPY, "falls as the model becomes surer of the next token", metrics.RL_TRAIN_ENTROPY.name
)
LENGTH = Panel(
    "Completion length (tokens)",
    (
        *(rf"(completions?/{part}_length|response_length/{part})" for part in ("mean", "min", "max")),
        r".*(completion|response)_length",
    ),
    "longer answers at the same reward are a warning",
    metrics.RL_ENVIRONMENT_EPISODE_LENGTH_MEAN.name,
)
REWARDS = Panel("Reward per function", (r"rewards/.+/mean",), "which part of the reward is being learned")
DEAD = Panel(
    "Truncation and dead groups",
    (r"completions?/clipped_ratio", r"response_length/clip_ratio", r"frac_reward_zero_std"),
    "shares of samples and groups; should stay near zero",
    metrics.RL_SAMPLE_TRUNCATED_RATIO.name,
)
CLIPPED = Panel(
    "Clipped updates",
    (r"clip_ratio(/(low|high|region)_mean)?", r"(.*/)?(pg_)?clip_?frac(tion)?(_avg|/mean)?"),
    "share of tokens whose update was cut off; a rise means that the steps are too large",
)
GRADIENT = Panel(
    "Gradient norm", (r"(.*/)?grad_?norm",), "spikes point at bad batches", metrics.RL_TRAIN_GRAD_NORM.name
)
RATE = Panel(
    "Learning rate",
    (r"(.*/)?(learning_rate|lr(-(?!.*(momentum|weight_decay)).+)?)",),
    "the schedule, as applied",
    metrics.RL_TRAIN_LEARNING_RATE.name,
)
MARGIN = Panel(
    "Margin",
    (r"rewards/margins?", r"eval_rewards/margins?"),
    "chosen minus rejected; should rise, flat means that nothing is learned",
)
SCORE_MARGIN = Panel(
    "Margin", (r"margin", r"eval_margin"), "score of the chosen minus that of the rejected; should rise"
)
ACCURACY = Panel("Accuracy", (r"(train/)?accuracy", r"eval[/_]accuracy"), "should rise")
PAIRS = Panel(
    "Accuracy",
    (r"rewards/accuracies", r"accuracy", r"eval_(rewards/accuracies|accuracy)"),
    "share of pairs whose chosen answer scores higher; 0.5 is a guess",
)
CHOSEN = Panel(
    "Rewards of chosen and rejected",
    (r"rewards/chosen", r"rewards/rejected", r"eval_rewards/(chosen|rejected)"),
    "implicit rewards; should part. Where both fall, the model unlearns the chosen answers too",
)
LOG_PROBABILITIES = Panel(
    "Log probability of chosen and rejected",
    (r"logps/chosen", r"logps/rejected", r"eval_logps/(chosen|rejected)"),
    "of whole answers; should part",
)
SCORES = Panel("Scores", (r"(mean|min|max)_reward",), "of all answers; a range that keeps growing is a warning")
_TOKEN_ACCURACY = "Token accuracy", (r"mean_token_accuracy", r"eval_mean_token_accuracy")
GUESSED = Panel(*_TOKEN_ACCURACY, "share of the next tokens that the model guesses")
TOKEN_ACCURACY = Panel(*_TOKEN_ACCURACY, "share of the next tokens that the model guesses; should rise")
OWN_LOSS = _loss("what it should do depends on the algorithm: with rewards it may stay near zero", _LOSSES_OF_PROGRAMS)
BACKWARD_LOSS = Panel("Loss of the backward pass", (r"torch/loss",), "the loss that backward was called on, by step")

#: Captions of these are true whatever the program does.
_OF_ANY = (
    REWARD, KL, ENTROPY, LENGTH, DEAD, CLIPPED, REWARDS, MARGIN, CHOSEN, LOG_PROBABILITIES, GUESSED, ACCURACY, OWN_LOSS,
    BACKWARD_LOSS, GRADIENT, RATE,
)  # fmt: skip
GAUGES = frozenset(panel.gauge for panel in _OF_ANY if panel.gauge)

LOSS_CARD, EVAL_LOSS_CARD = Card("Loss", OWN_LOSS), Card("Eval loss", OWN_LOSS, _EVAL_LOSS)
BACKWARD_LOSS_CARD = Card(BACKWARD_LOSS.title, BACKWARD_LOSS)
NORM_CARD = Card("Gradient norm", GRADIENT)
REWARD_CARDS = (Card("Reward", REWARD), Card("KL", KL), Card("Entropy", ENTROPY))

#: The first that fits is the kind; of what follows from calls the last four in their order.
OWN_LOOP = ProgramKind(
    "own loop",
    panels=(OWN_LOSS, BACKWARD_LOSS, REWARD, GRADIENT, RATE),
    cards=(LOSS_CARD, BACKWARD_LOSS_CARD, EVAL_LOSS_CARD, *REWARD_CARDS),
)
AGENT = ProgramKind("agent", sections=("ending", "rollouts", "tools", "models"))
INFERENCE = ProgramKind("inference only", sections=("ending", "models", "tools"))
_PREFERENCES = ProgramKind(
    "preference optimization",
    algorithms=frozenset({Algorithm.DPO, Algorithm.KTO, "cpo", "orpo", "bco", "tpo"}),
    keys=(r"rewards/margins?",),
    panels=(
        MARGIN,
        PAIRS,
        CHOSEN,
        _loss("should fall while the margin rises"),
        LOG_PROBABILITIES,
        KL,
        GRADIENT,
        RATE,
        CONFIDENCE,
    ),
    cards=(
        Card("Margin", MARGIN),
        Card("Accuracy", PAIRS, is_share=True),
        Card("Chosen reward", CHOSEN, r"rewards/chosen"),
        Card("Rejected reward", CHOSEN, r"rewards/rejected"),
        LOSS_CARD,
        EVAL_LOSS_CARD,
    ),
    sections=("ending", "training"),
)
KINDS = (
    ProgramKind(
        "reward model",
        algorithms=frozenset({Algorithm.REWARD_MODELING, "prm"}),
        panels=(PAIRS, SCORE_MARGIN, _loss("should fall; 0.69 is a guess"), SCORES, GRADIENT, RATE),
        cards=(Card("Accuracy", PAIRS, is_share=True), Card("Margin", SCORE_MARGIN), LOSS_CARD, EVAL_LOSS_CARD),
        sections=("ending", "training"),
    ),
    _PREFERENCES,
    replace(
        _PREFERENCES,
        name="online preference optimization",
        algorithms=frozenset({Algorithm.ONLINE_DPO, "xpo", "nash_md"}),
        keys=(),
        scores_answers=True,
    ),
    ProgramKind(
        "RL on the policy's samples",
        algorithms=frozenset({Algorithm.GRPO, Algorithm.RLOO, Algorithm.PPO, "a2po", "gmpo", "gspo", "dapo"}),
        keys=(r"frac_reward_zero_std", *REWARD.patterns[:4]),
        metric=REWARD.gauge,
        panels=(
            REWARD,
            KL,
            ENTROPY,
            LENGTH,
            DEAD,
            CLIPPED,
            REWARDS,
            _loss("small and noisy is normal here: the reward says whether it learns"),
            GRADIENT,
            RATE,
        ),
        cards=(*REWARD_CARDS, LOSS_CARD),
        scores_answers=True,
    ),
    ProgramKind(
        "distillation",
        algorithms=frozenset({Algorithm.DISTILLATION, "gkd", "gold", "iw_opd", "sdft", "mini_llm"}),
        panels=(_loss("distance from the teacher; should fall"), TOKEN_ACCURACY, CONFIDENCE, LENGTH, GRADIENT, RATE),
        cards=(LOSS_CARD, EVAL_LOSS_CARD, Card("Token accuracy", TOKEN_ACCURACY, is_share=True)),
        sections=("ending", "training"),
    ),
    ProgramKind(
        "supervised training",
        algorithms=frozenset({Algorithm.SFT}),
        systems=frozenset({"transformers"}),
        keys=(r"mean_token_accuracy", _EVAL_LOSS, r"train_mean_nll"),
        panels=(
            _loss("should fall; flat means that nothing is learned, an eval_loss that rises means overfitting"),
            TOKEN_ACCURACY,
            ACCURACY,
            GRADIENT,
            RATE,
            CONFIDENCE,
        ),
        cards=(
            LOSS_CARD,
            BACKWARD_LOSS_CARD,
            EVAL_LOSS_CARD,
            Card("Token accuracy", TOKEN_ACCURACY, is_share=True),
            NORM_CARD,
        ),
        sections=("ending", "training"),
    ),
)


def panels_of(kind: ProgramKind) -> list[Panel]:
    """Return the panels of the kind, and those of any program that it does not have."""
    by_title = {panel.title: panel for panel in (*_OF_ANY, *kind.panels)}
    shown = dict.fromkeys((*(panel.title for panel in kind.panels), *by_title))
    return [by_title[title] for title in shown]


def kind_of(collected: Collected, keys: Iterable[str]) -> ProgramKind:
    """Return the kind of a run that logged these keys."""
    processes = collected.reader.processes
    algorithm, system = (first_value(processes, name) for name in (names.RL_ALGORITHM, names.RL_SYSTEM_NAME))
    logged = list(keys)
    return (
        next((kind for kind in KINDS if algorithm in kind.algorithms), None)
        or next((kind for kind in KINDS if any(_is_of(key, kind) for key in logged)), None)
        or next((kind for kind in KINDS if system in kind.systems), None)
        or _by_calls(collected, is_loop=bool(logged or collected.steps.ranks))
    )


def scores_answers(collected: Collected, keys: Iterable[str], *, has_rewards: bool) -> bool:
    """Return whether a training learns from answers of its model; a kind by its keys rules out no rewards."""
    kind = kind_of(collected, keys)
    is_sure = first_value(collected.reader.processes, names.RL_ALGORITHM) in kind.algorithms
    return bool(kind.scores_answers) or (has_rewards and not is_sure)


def _by_calls(collected: Collected, *, is_loop: bool) -> ProgramKind:
    if is_loop:
        return OWN_LOOP
    if rollouts.of_run(collected).statistics.number or statistics.agents(collected) or statistics.tools(collected):
        return AGENT
    return INFERENCE if statistics.models(collected) else OWN_LOOP


def is_like(key: str, pattern: str) -> bool:
    """Return whether a key has a pattern of this table."""
    return _compiled(pattern).fullmatch(key) is not None


def key_like(metric: str, keys: Iterable[str]) -> str | None:
    """Return the first of these keys that the panel of a metric of the registry shows, and that has no other metric."""
    patterns = [pattern for panel in _OF_ANY if metric and panel.gauge == metric for pattern in panel.patterns]
    unknown = [key for key in keys if CANONICAL.get(key.removeprefix(TRAINER_PREFIX)) is None]
    return next((key for key in unknown if any(is_like(key, pattern) for pattern in patterns)), None)


def has_metric(key: str, metric: str) -> bool:
    """Return whether a key that a trainer logged has this metric of the registry."""
    canonical = CANONICAL.get(key)
    return canonical is not None and canonical.name == metric


def _is_of(key: str, kind: ProgramKind) -> bool:
    return any(is_like(key, pattern) for pattern in kind.keys) or has_metric(key, kind.metric)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# A page of a run that is followed is made in children, each of which would compile them anew.
for _kind in (OWN_LOOP, *KINDS):
    for _pattern in (*_kind.keys, *(pattern for panel in panels_of(_kind) for pattern in panel.patterns)):
        _compiled(_pattern)
