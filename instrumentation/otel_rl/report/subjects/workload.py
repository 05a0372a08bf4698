"""What kind of program a run is: which checks apply to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.links import Link, link_of
from otel_rl.report.core.steps import counted
from otel_rl.report.subjects.calls import rollouts, statistics
from otel_rl.report.subjects.calls.lines import of_rewards
from otel_rl.report.subjects.rewards import scores
from otel_rl.report.subjects.training import program_kinds, scalars
from otel_rl.report.subjects.trajectories import totals as samples
from otel_rl.report.subjects.weight_syncs import syncs as weight_syncs
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected

#: Libraries that a program without any recorded step may train with.
_TRAINING_LIBRARIES = frozenset({"torch", "trl", "verl", "transformers"})
_FEWEST_PASSES = 3
_ACTIVE = frozenset({"active", "degraded"})


@dataclass(frozen=True, slots=True)
class Workload:
    """What a run does.

    Attributes:
        trains: steps, or values of a trainer, were recorded.
        may_train: none were, though a library for training was at work, gradients were computed, or there are ranks.
        learns_from_samples: answers of the policy are scored.
        has_engine: an inference engine works for the trainer.
        ranks: of the job.
    """

    trains: bool
    may_train: bool
    learns_from_samples: bool
    has_engine: bool
    ranks: int

    @property
    def without_steps(self) -> str:
        """Why no step was recorded; ``""`` where some were."""
        if self.trains:
            return ""
        return _NO_STEPS if self.may_train else NO_TRAINING


NO_TRAINING = "this program has no training steps"
_NO_STEPS = "no step was recorded: open them with otel_rl.step(), or use a trainer that is supported"
NO_SAMPLES = "this training scores no answers of the model"


def of(collected: Collected) -> Workload:
    """Return what the records show."""
    steps, totals = collected.steps, collected.totals
    processes = collected.reader.processes
    trains = bool(steps.ranks or steps.loops or totals.sum(metrics.RL_TRAIN_STEPS) or scalars.of_run(collected).keys)
    sizes = [size for process in processes if (size := int_or_none(process.identity(names.RL_WORLD_SIZE))) is not None]
    reported = len({process.rank for process in processes if process.rank is not None} | steps.ranks.keys() - {None})
    libraries = {
        name
        for process in processes
        for name, outcome in process.mapping("instrumentors").items()
        if isinstance(outcome, dict) and outcome.get("state") in _ACTIVE
    }
    has_calls = bool(statistics.models(collected) or statistics.tools(collected))
    has_rewards = bool(of_rewards(collected, "seconds") or scores.by_name(collected) or samples.of_run(collected).ended)
    # A reward is logged, and models are called: likely for it.
    has_rewards |= has_calls and any(link_of(key)[0] is Link.REWARD for key in scalars.of_run(collected).keys)
    return Workload(
        trains=trains,
        may_train=not trains
        and (
            reported > 1
            or passes_without_step(collected) > 0
            or (not has_calls and not _TRAINING_LIBRARIES.isdisjoint(libraries))
        ),
        learns_from_samples=trains
        and program_kinds.scores_answers(collected, scalars.of_run(collected).keys, has_rewards=has_rewards),
        has_engine=trains and bool(steps.engines.steps() or weight_syncs.stages(totals)),
        ranks=max(reported, *sizes, 0),
    )


def passes_without_step(collected: Collected) -> int:
    """Return the backward passes of a process whose weights no optimizer moved; 0 for a few, which train nothing."""
    passes = (process.number("backward_passes_without_step") or 0 for process in collected.reader.processes)
    most = max(passes, default=0)
    return most if most >= _FEWEST_PASSES else 0


def extent(collected: Collected) -> str:
    """Return how much of a run was recorded: the steps it made, else its rollouts or calls; ``""`` for nothing."""
    if collected.steps.ranks:
        _, made, of_ranks = _steps(collected)
        return f"{human.amount(made, 'step')}{of_ranks}"
    calls = (
        ("rollout", rollouts.of_run(collected).statistics.number),
        ("model call", sum(model.number for model in statistics.models(collected))),
        ("tool call", sum(tool.number for tool in statistics.tools(collected))),
    )
    parts = [human.amount(number, noun) for noun, number in calls if number]
    if parts:
        *first, last = parts
        return f"{', '.join(first)} and {last}" if first else last
    records = sum(process.records for process in collected.reader.processes)
    return human.amount(records, "record") if records else ""


def steps_with_spans(collected: Collected) -> str:
    """Return how many of the steps can be compared: ``79 of 200 steps of 2 ranks``."""
    with_spans, made, of_ranks = _steps(collected)
    of_all = f"{human.number(with_spans)} of " if with_spans < made else ""
    return f"{of_all}{human.amount(made, 'step')}{of_ranks}"


def _steps(collected: Collected) -> tuple[int, int, str]:
    """Return the steps of a rank with spans, those that it made, and of how many ranks, in words."""
    steps = collected.steps
    with_spans = max(rank.steps.count for rank in steps.ranks.values())
    made = max(with_spans, counted(steps, collected.totals)) if steps.guessed else with_spans
    return with_spans, made, f" of {len(steps.ranks)} ranks" if len(steps.ranks) > 1 else ""
