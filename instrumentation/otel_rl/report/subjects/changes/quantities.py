"""Every value over the steps that is no duration: what the trainer logged, and means of samples, calls and memory.

A duration is a series of :mod:`otel_rl.report.subjects.changes.series`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from otel_rl.core.logged_keys import is_of_rewards
from otel_rl.report.core import human, sentences
from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.lines import Line, merged, of_rows
from otel_rl.report.core.links import DOWN, NEITHER, UP, Link, is_curve, link_of
from otel_rl.report.subjects import workload
from otel_rl.report.subjects.calls import rollouts
from otel_rl.report.subjects.checkpoints import saved
from otel_rl.report.subjects.rewards import scores
from otel_rl.report.subjects.training import scalars
from otel_rl.semconv import attributes as names
from otel_rl.store.tables.load import MODEL, TOOL
from otel_rl.training.guessed_records import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_rl.report.core.collected import Collected


#: Points of a value that counts up, and the share of them at which it rises.
_COUNTED, _NEARLY_ALL = 10, 0.8


@dataclass(frozen=True, slots=True)
class Watched:
    """One value over the steps (or over time).

    Attributes:
        name: what a sentence calls it.
        link: its place in the chain.
        better: which way is better.
        x, values: its points.
        unit: makes a value a text.
        section, chart: where the page shows it.
        subject: what it is about.
        counts: what its points count: steps, or log calls of the program.
        logged: True for a value that the program logs: a curve, which moves by itself.
        is_means: True for the loss of a training that learns from rewards, whose level says little.
        is_gap: True for how much worse an evaluation is than the training.
    """

    name: str
    link: Link
    better: int
    x: list[int]
    values: list[float]
    unit: Callable[[float], str] = human.number
    section: str = "training"
    chart: str = ""
    subject: str = ""
    counts: str = "step"
    by_step: bool = True
    logged: bool = False
    is_means: bool = False
    is_gap: bool = False


@asked_once
def of_run(collected: Collected) -> list[Watched]:
    """Return the quantities of the steps that the page shows."""
    if collected.only is not None:
        return []
    logged = list(_logged(collected))
    return [
        *logged,
        *_gaps(logged),
        *_scores_by_rank(collected),
        *_batches_by_rank(collected),
        *_collectives(collected),
        *_of_samples(collected),
        *_groups(collected),
        *_of_calls(collected),
        *_memory(collected),
        *_checkpoints(collected),
    ]


def _logged(collected: Collected) -> Iterator[Watched]:
    curves = scalars.of_run(collected)
    logged = {
        name: (curve, *link_of(name))
        for name, curve in curves.logged.items()
        if not curve.over_time and is_curve(name) and not _is_counter(curve.y)
    }
    has_loss = any(
        link is Link.LOSS and not name.startswith(PREFIX) and len(set(curve.y)) > 1
        for name, (curve, link, _) in logged.items()
    )
    has_reward = any(map(is_of_rewards, logged)) and workload.of(collected).learns_from_samples
    for name, (curve, link, better) in logged.items():
        if has_loss and link is Link.LOSS and name.startswith(PREFIX):
            # The program's own loss is the one that it minds: that of PyTorch may be scaled, or one of several.
            continue
        is_means = link is Link.LOSS and has_reward
        yield Watched(
            name, link, better, [round(x) for x in curve.x], curve.y, chart=name, subject=name,
            counts=curves.counts(name), logged=True, is_means=is_means,
        )  # fmt: skip


def _is_counter(values: list[float]) -> bool:
    """Return whether a value only counts up, as the tokens that were seen."""
    rises = [after - before for before, after in pairwise(values)]
    return len(rises) >= _COUNTED and min(rises) >= 0 and sum(rise > 0 for rise in rises) >= _NEARLY_ALL * len(rises)


#: How many rollouts a step has, and the expression of a value that each of them has.
ROLLOUTS, _EVERY = "rollouts of a step", "(status = 'discarded')"
#: Of samples: what a sentence calls it -> expression, link, which way is better.
_OF_SAMPLES = {
    "turns of a rollout": ("turns", Link.ROLLOUT, NEITHER),
    "tool calls of a rollout": ("tool_calls", Link.ROLLOUT, NEITHER),
    "model calls of a rollout": ("model_calls", Link.ROLLOUT, NEITHER),
    "input tokens of a rollout": ("input_tokens", Link.TOKENS, NEITHER),
    "output tokens of a rollout": ("output_tokens", Link.TOKENS, NEITHER),
    "failed share of rollouts": ("(status = 'failed')", Link.ROLLOUT, DOWN),
    "cancelled share of rollouts": ("(status = 'cancelled')", Link.ROLLOUT, DOWN),
    "discarded share of rollouts": (_EVERY, Link.ROLLOUT, DOWN),
    "share of answers cut at their limit": ("(stop_reason IN ('length', 'max_tokens'))", Link.TOKENS, DOWN),
    "age of samples": ("age", Link.ENGINE, DOWN),
}
_SAMPLES = f"""
SELECT step, {", ".join(f"count({of}), sum({of}), min({of}), max({of})" for of, _, _ in _OF_SAMPLES.values())}
FROM samples WHERE NOT coalesce(evaluation, 0) AND step IS NOT NULL GROUP BY step ORDER BY step"""


def _of_samples(collected: Collected) -> Iterator[Watched]:
    lines = [Line() for _ in _OF_SAMPLES]
    for step, *values in collected.tables.stream(_SAMPLES):
        for place, line in enumerate(lines):
            if values[4 * place]:
                line.append(step, *values[4 * place : 4 * place + 4])
    for (name, (value, link, better)), line in zip(_OF_SAMPLES.items(), lines, strict=True):
        if not line.x:
            continue
        is_share = value.startswith("(")
        unit = human.percent if is_share else human.duration if value == "age" else human.number
        yield _watched(name, link, better, line, unit, section="trajectories")
        if value == _EVERY:
            every = _watched(ROLLOUTS, Link.ROLLOUT, UP, line, section="trajectories")
            yield replace(every, values=[*line.numbers])


def _watched(
    name: str, link: Link, better: int, line: Line, unit: Callable[[float], str] = human.number, *, section: str,
    subject: str = "",
) -> Watched:  # fmt: skip
    return Watched(name, link, better, list(line.x), line.means, unit, section, "", subject, by_step=line.by_step)


#: Prefixes of what an evaluation and a training log, and evaluations from which on they are compared.
_EVALUATED, _TRAINED = re.compile(r"^(eval|val|valid|validation|test)[/_]"), re.compile(r"^train(ing)?[/_]")
_FEWEST_EVALUATIONS = 8
#: Share of a gap that the evaluation has opened by getting worse.
_OF_GAP = 0.25


def _gaps(logged: list[Watched]) -> Iterator[Watched]:
    """Yield by how much each evaluation is worse than the training, where it gets worse and the training does not."""
    # Transformers logs `train_loss` once at the end, beside `loss`.
    by_length = sorted(logged, key=lambda one: len(one.x))
    trained = {_TRAINED.sub("", one.name): one for one in by_length if not _EVALUATED.match(one.name)}
    for evaluated in logged:
        own = trained.get(_EVALUATED.sub("", evaluated.name))
        if own is None or own is evaluated or not evaluated.better or len(evaluated.x) < _FEWEST_EVALUATIONS:
            continue
        sign = -evaluated.better
        third = len(evaluated.x) // 3
        begins = (0, third, len(evaluated.x) - third)
        parts = [sign * median(evaluated.values[begin : begin + third]) for begin in begins]
        places = [0, *(bisect_right(own.x, x) for x in evaluated.x)]
        points = [own.values[before:after] for before, after in pairwise(places)]
        if not all(points):
            continue
        gaps = [sign * (value - fmean(near)) for value, near in zip(evaluated.values, points, strict=True)]
        of_parts = [median(gaps[begin : begin + third]) for begin in begins]
        # A gap that opens as the training catches up is none.
        if parts[-1] - min(parts) <= _OF_GAP * max(of_parts[-1] - min(of_parts), 0.0):
            continue
        yield replace(evaluated, name=f"{evaluated.name} against {own.name}", values=gaps, better=DOWN, is_gap=True)


def _scores_by_rank(collected: Collected) -> Iterator[Watched]:
    """Yield the scores of each function, and the rewards of rollouts, by rank where several ranks have some."""
    lines = {(f"score {name}", name, rank): line for (name, rank), line in scores.over_steps(collected).items()}
    lines |= {("reward of rollouts", "", rank): line for rank, line in rollouts.over_steps(collected, "reward").items()}
    ranks = Counter(what for what, _, rank in lines if rank is not None)
    for (what, name, rank), line in lines.items():
        if ranks[what] > 1 and rank is not None:
            own = f"{what} on rank {rank}"
            # A value of the program's own, as those that it logs.
            yield replace(_watched(own, Link.SCORE, UP, line, section="rewards", subject=name), logged=True)


_BY_RANK = """
SELECT rank, step, NULL, count(*), sum(value), min(value), max(value) FROM steps JOIN step_value USING (id)
WHERE attempt = ? AND loop = ? AND restarts = ? AND name = ? AND rank IS NOT NULL
GROUP BY rank, step ORDER BY rank, step"""


def _batches_by_rank(collected: Collected) -> Iterator[Watched]:
    lines = _by_rank(collected, names.RL_LOOP_SAMPLES)
    for (rank,), line in lines.items():
        # Of one rank it is a logged value.
        if len(lines) > 1:
            yield _watched(f"samples of a step on rank {rank}", Link.DATA, NEITHER, line, section="ranks")


def _by_rank(collected: Collected, name: str) -> dict[Any, Line]:
    steps = collected.steps
    return of_rows(collected.tables.stream(_BY_RANK, steps.attempt, steps.loop, steps.restarts, name))


def _collectives(collected: Collected) -> Iterator[Watched]:
    """Yield the number of collectives of a step if the last step has none, though earlier ones had."""
    for line in merged(_by_rank(collected, names.TORCH_DISTRIBUTED_CALLS), lambda _: None).values():
        if not line.totals[-1] and any(line.totals):
            yield _watched("collective operations of a step", Link.GRADIENT, UP, line, section="ranks")


_GROUPS = """
WITH compared AS (SELECT step, max(reward) - min(reward) AS spread, max(abs(reward)) AS most FROM samples
                  WHERE NOT coalesce(evaluation, 0) AND step IS NOT NULL AND group_id IS NOT NULL
                  GROUP BY step, group_id HAVING count(reward) > 1)
SELECT step, NULL, count(*), sum(spread <= 1e-6 * max(most, 1.0)), min(spread <= 1e-6 * max(most, 1.0)),
       max(spread <= 1e-6 * max(most, 1.0)) FROM compared GROUP BY step ORDER BY step"""


def _groups(collected: Collected) -> Iterator[Watched]:
    for line in of_rows(collected.tables.stream(_GROUPS)).values():
        name = "share of groups with the same reward for all answers"
        yield _watched(name, Link.REWARD, DOWN, line, human.percent, section="trajectories")


_OF_CALLS = """
SELECT kind, name, place, step, second, count({value}), sum({value}), min({value}), max({value}) FROM calls
WHERE is_fair AND {value} IS NOT NULL GROUP BY callee, step, second ORDER BY kind, name, place, step, second"""


def _of_calls(collected: Collected) -> Iterator[Watched]:
    for value, noun in (("input_tokens", "input tokens"), ("output_tokens", "output tokens")):
        for (kind, name, place), line in of_rows(collected.tables.stream(_OF_CALLS.format(value=value))).items():
            if kind != MODEL:
                continue
            subject = sentences.model(name)
            name_of = f"{noun} of a call of model {subject}" + (f" at {place}" if place else "")
            yield _watched(name_of, Link.TOKENS, NEITHER, line, section="models", subject=subject)
    sizes = of_rows(collected.tables.stream(_OF_CALLS.format(value="result_size")))
    for name, line in merged({key: line for key, line in sizes.items() if key[0] == TOOL}, itemgetter(1)).items():
        yield _watched(f"result of tool {name}", Link.TOOL, NEITHER, line, human.size, section="tools", subject=name)


_MEMORY = """
SELECT p.label, step, NULL, count(memory), sum(memory), min(memory), max(memory)
FROM step s JOIN process p USING (process)
WHERE p.attempt = ? AND loop = ? AND restarts = ? AND NOT is_root AND memory IS NOT NULL
GROUP BY p.label, step ORDER BY p.label, step"""


def _memory(collected: Collected) -> Iterator[Watched]:
    steps = collected.steps
    rows = collected.tables.stream(_MEMORY, steps.attempt, steps.loop, steps.restarts)
    for (label,), line in of_rows(rows).items():
        yield _watched(f"memory of {label}", Link.MEMORY, DOWN, line, human.size, section="pressure")


def _checkpoints(collected: Collected) -> Iterator[Watched]:
    """Yield how large the checkpoints of a step are, by process."""
    lines: dict[str, Line] = {}
    for one in sorted(saved.saved(collected), key=lambda one: one.step or 0):
        if one.step is not None and one.size is not None:
            lines.setdefault(one.who, Line()).append(one.step, 1, one.size, one.size, one.size)
    for who, line in lines.items():
        whole = _watched(f"checkpoint of {who}", Link.MEMORY, NEITHER, line, human.size, section="checkpoints")
        yield replace(whole, values=list(line.totals))
