"""Values that jump, stand still or grow, and from that a finding: "grad_norm is exactly 1 since step 30"."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median
from typing import TYPE_CHECKING

from otel_rl.report.core import detectors, human, levels, thresholds
from otel_rl.report.core.finding import STILL, VALUE, Finding, Severity, around
from otel_rl.report.core.levels import TO_DEVIATION
from otel_rl.report.core.links import DOWN, NEITHER, UP, Link
from otel_rl.report.subjects.changes import quantities

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.detectors import Growth, Jump, Still
    from otel_rl.report.core.levels import Rise
    from otel_rl.report.subjects.changes.quantities import Watched

#: Deviations of the values before from which on a jump is said, and from which on it is a warning.
_SAID, _WARNING = 6.0, 7.0
#: The same of rewards and losses that get worse: what all training is for is said earlier.
_WORSE = 2.0
#: Least change of a level that is one, as a share of the larger one of both; and of a share in absolute numbers.
_NOTABLE, _NOTABLE_SHARE = 0.25, 0.1
#: Points before a value stood still, and deviations that it must lie away from them where it is the best there can be.
_BEFORE, _AWAY = 8, 2.0
#: Log calls after which a value that never moved is said.
_NEVER_MOVED = 20
#: Growth of memory that is said: bytes a step, as a share of what it was, and bytes a step that are no warm-up.
_MEMORY, _MEMORY_SHARE, _LEAK = 1 << 18, 0.1, 1 << 22
#: How many times a size grows before it is said, and before it is a warning where it is none that a policy learns.
_MANIFOLD, _TOO_MUCH = 2.0, 4.0
#: Links whose values never stand still in a training that goes on.
_MOVING = frozenset({Link.SCORE, Link.REWARD, Link.ADVANTAGE, Link.GRADIENT, Link.LOSS, Link.POLICY})
#: Links of which growth is a finding: the others are to grow, or are judged by rules of their own.
_GROWING = frozenset({Link.MEMORY, Link.TOOL, Link.TOKENS, Link.ROLLOUT, Link.ENGINE, Link.DATA})

#: Share of a gap up to which it has not opened yet, and share of the evaluations in which it is open from then on.
_OPEN, _STAYS_OPEN = 0.05, 0.8
#: Values that a share of few items has.
_FEW_ITEMS = 6
#: Groups whose rewards are all equal; the share of earlier rewards that are lower than those at their best.
_ALIKE, _NEARLY_BEST = re.compile(r"zero_?std|zero_variance|same reward for all"), 0.9
#: Keys of preference training, and what to look at.
_OF_PAIRS = re.compile(r"accuracies|margin|chosen|rejected")
_PAIRS = "The pairs of these steps, chosen beside rejected."
_LOOK_AT = {
    Link.DATA: "The data of these steps: what was read, filtered and put together.",
    Link.TOOL: "What the tool was given and answered in these steps.",
    Link.TOKENS: "Rollouts of before and after, side by side: prompts, tool results and answers.",
    Link.ROLLOUT: "Rollouts of before and after, side by side.",
    Link.SCORE: "The function behind it: what it is given, and whether it still looks at it.",
    Link.REWARD: "The scores that it is made of, and their weights.",
    Link.GRADIENT: "Clipping, loss scaling, and which parameters get gradients.",
    Link.MEMORY: "What the program keeps from step to step: tensors with their graph, lists, caches.",
}


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A change of a value, as a finding, with its place in the chain; ``onset`` is a step or a second."""

    link: Link
    onset: int
    finding: Finding
    watched: Watched
    is_growth: bool = False
    is_better: bool = False


def shifts(collected: Collected) -> list[ValueChange]:
    """Return what happened to each value, at most one thing of each."""
    looks = collected.earlier_looks
    found = (
        looks.find(("value", watched.name), len(watched.x), partial(_of, watched))
        for watched in quantities.of_run(collected)
    )
    # What is kept from one look to the next stays as it was found.
    changes = [_fresh(one) for one in found if one is not None]
    improved = [change.onset for change in changes if change.is_better]
    jumped = [*improved, *(change.onset for change in changes if change.finding.code == STILL)]
    rewards = [one for one in quantities.of_run(collected) if one.better == UP and one.link is Link.REWARD]
    for change in changes:
        if _ALIKE.search(change.watched.name):
            _excuse_solved(change, rewards, jumped)
    for change in changes:
        if change.watched.better == NEITHER and any(abs(at - change.onset) <= thresholds.TOGETHER for at in improved):
            # What a policy has learned at once.
            change.finding.severity = Severity.NOTICE
    return [change for change in changes if not change.is_better or change.link is Link.SCORE]


def _fresh(change: ValueChange) -> ValueChange:
    finding = change.finding
    return replace(change, finding=replace(finding, symptoms=[], evidence=list(finding.evidence)))


def _excuse_solved(change: ValueChange, rewards: list[Watched], jumped: list[int]) -> None:
    """Make groups of equal rewards a notice if the reward has come to its best bit by bit: the tasks are solved."""
    if any(abs(at - change.onset) <= thresholds.TOGETHER for at in jumped):
        return
    for reward in rewards:
        place = bisect_left(reward.x, change.onset)
        before, after = sorted(reward.values[:place]), reward.values[place:]
        if min(len(before), len(after)) >= _BEFORE and median(after) > before[int(_NEARLY_BEST * len(before))]:
            levels_of = f"{reward.unit(median(after))}; {reward.unit(median(before))} before"
            change.finding.severity = Severity.NOTICE
            change.finding.evidence.append(f"{reward.name} is at its best then ({levels_of}): tasks that are solved.")
            return


def _of(watched: Watched) -> ValueChange | None:
    for look in (_gap,) if watched.is_gap else (_still, _jump, _decline, _growth):
        if (shift := look(watched)) is not None:
            return shift
    return None


# -- still -------------------------------------------------------------------------------------------------------------


def _still(watched: Watched) -> ValueChange | None:
    if watched.link not in _MOVING or not watched.logged:
        return None
    found = detectors.still(watched.values)
    if found is None or not _is_odd(watched, found):
        return None
    value = human.number(found.value)
    if found.varied is None:
        text = f"{watched.name} is exactly {value} in all {len(watched.values)} log calls."
        return _shift(watched, found.first, text, Severity.NOTICE)
    low, high = found.varied
    since = _place(watched, found.first)
    text = (
        f"{watched.name} is exactly {value} since {since}; it was {human.number(low)} to {human.number(high)} before."
    )
    return _shift(watched, found.first, text, Severity.WARNING, code=STILL)


def _is_odd(watched: Watched, found: Still) -> bool:
    """Return whether learning does not explain why a value has stopped moving."""
    if found.varied is None:
        is_best = found.value in (0.0, 1.0)
        return watched.link is Link.SCORE and not is_best and len(watched.values) >= _NEVER_MOVED
    low, high = found.varied
    if low < found.value < high or watched.link is Link.POLICY:
        # A policy may well stop to be clipped. Its ratio and its divergence always move.
        return low < found.value < high or "clip" not in watched.name.lower()
    # What has come to the best that there is, or the worst, bit by bit, has come to its end.
    before = watched.values[max(found.first - _BEFORE, 0) : found.first]
    middle = sorted(before)[len(before) // 2]
    deviation = sorted(abs(value - middle) for value in before)[len(before) // 2] * TO_DEVIATION
    return abs(found.value - middle) > max(_AWAY * deviation, _NOTABLE * (high - low))


# -- jumps -------------------------------------------------------------------------------------------------------------


def _jump(watched: Watched) -> ValueChange | None:
    found = [jump for jump in detectors.jumps(watched.values) if _is_notable(watched, jump)]
    if not found:
        return None
    jump = max(found, key=lambda one: one.deviations)
    rises = jump.after > jump.before
    is_better = (watched.better == UP and rises) or (watched.better == DOWN and not rises)
    low, high = sorted((abs(jump.before), abs(jump.after)))
    # Curves move by themselves; counts do not.
    is_manifold = not watched.logged and low * _MANIFOLD <= high
    # Rules of their own judge the learning rate, which has a schedule, and the divergence and entropy of a policy.
    is_judged = watched.logged and (watched.link in (Link.RATE, Link.POLICY) or watched.is_means)
    # A value that is exactly equal before and after is a setting, and what nobody knows the meaning of may be one.
    is_set = watched.logged and watched.better == NEITHER and (jump.is_exact or watched.link is Link.OTHER)
    is_grave = not (is_better or is_judged or is_set) and (jump.deviations >= _WARNING or is_manifold)
    before, after = map(watched.unit, _levels_of(watched, jump))
    text = f"{_upper(watched)} {'rose' if rises else 'fell'} from {before} to {after} at {_place(watched, jump.first)}."
    change = _shift(watched, jump.first, text, Severity.WARNING if is_grave else Severity.NOTICE)
    # A schedule that falls explains nothing, unless it has come to its end.
    explains_nothing = watched.link is Link.RATE and not rises and jump.after > 0
    return replace(change, is_better=is_better, link=Link.OTHER if explains_nothing else change.link)


def _levels_of(watched: Watched, jump: Jump) -> tuple[float, float]:
    """Return the values before and after in words: means of a share of few items, whose median is 0 or 1."""
    if len(set(watched.values)) > _FEW_ITEMS or not all(0 <= value <= 1 for value in watched.values):
        return jump.before, jump.after
    return fmean(watched.values[: jump.first]), fmean(watched.values[jump.first :])


def _is_notable(watched: Watched, jump: Jump) -> bool:
    change, level = abs(jump.after - jump.before), max(abs(jump.before), abs(jump.after))
    is_worse = watched.better * (jump.after - jump.before) < 0
    is_outcome = watched.link in (Link.SCORE, Link.REWARD, Link.LOSS) and not watched.is_means
    if jump.deviations < (_WORSE if is_worse and is_outcome else _SAID) or change < _NOTABLE * level:
        return False
    return watched.unit is not human.percent or change >= _NOTABLE_SHARE


# -- growth ------------------------------------------------------------------------------------------------------------


def _growth(watched: Watched) -> ValueChange | None:
    is_unknown = watched.logged and watched.link is Link.OTHER
    if watched.link not in _GROWING and not is_unknown:
        return None
    found = detectors.growth(watched.values)
    # A key of unknown meaning may be meant to grow from the start.
    if found is None or (is_unknown and (found.first < _BEFORE or found.after < _TOO_MUCH * found.before)):
        return None
    if watched.section == "pressure":
        return _of_memory(watched, found)
    if found.after < _MANIFOLD * max(found.before, 0.0) or watched.better not in (NEITHER, DOWN):
        return None
    grow = "grow" if " tokens " in watched.name else "grows"
    both = f"from {watched.unit(found.before)} to {watched.unit(found.after)}"
    text = f"{_upper(watched)} {grow} since {_place(watched, found.first)}: {both}."
    # Answers and episodes may become longer. Prompts are made by the program.
    is_made = any(word in watched.name for word in ("input", "prompt", "context", "result", "checkpoint"))
    is_manifold = found.after >= _TOO_MUCH * found.before
    is_grave = (is_made or watched.better == DOWN) and is_manifold
    severity = Severity.WARNING if is_grave else Severity.NOTICE
    return _shift(watched, found.first, text, severity, is_growth=True)


def _gap(watched: Watched) -> ValueChange | None:
    """Return since when the evaluation is worse than the training, bit by bit or at once."""
    found = detectors.growth(watched.values) or _lasting_rise(watched.values)
    if found is None:
        return None
    evaluated, _, trained = watched.name.partition(" against ")
    before = f"{watched.unit(abs(found.before))} {'better' if found.before < 0 else 'worse'} before"
    closed = found.before + _OPEN * (found.after - found.before)
    opened = [value > closed for value in watched.values]
    places = (at for at in range(found.first, len(opened)) if opened[at] and fmean(opened[at:]) >= _STAYS_OPEN)
    first = next(places, found.first)
    # An evaluation sees what has happened since the one before.
    when = f"between {watched.counts}s {watched.x[first - 1]} and {watched.x[first]}"
    text = f"{evaluated} parts from {trained} {when}: {watched.unit(found.after)} worse at the end ({before})."
    return _shift(watched, first, text, Severity.WARNING, is_growth=True)


def _decline(watched: Watched) -> ValueChange | None:
    """Return since when a smaller share of the data is used, if the unused rest has at least doubled."""
    if watched.link is not Link.DATA or watched.better != UP or not all(0 <= value <= 1 for value in watched.values):
        return None
    found = _lasting_rise([1 - value for value in watched.values], factor=_MANIFOLD, least=_NOTABLE)
    if found is None:
        return None
    before, after = human.percent(1 - found.before), human.percent(1 - found.after)
    text = f"{_upper(watched)} fell from {before} to {after} at {_place(watched, found.first)}."
    return _shift(watched, found.first, text, Severity.WARNING)


def _lasting_rise(values: list[float], factor: float = 1.0, least: float = 0.0) -> Rise | None:
    """Return the rise of a share or difference that lasts to the end of its series."""
    found = levels.rise(values, factor=factor, least=least, ratio=False)
    return found if found is not None and found.last == len(values) - 1 else None


def _of_memory(watched: Watched, found: Growth) -> ValueChange | None:
    step = found.slope / max((watched.x[-1] - watched.x[0]) / max(len(watched.x) - 1, 1), 1)
    if step < _MEMORY or found.after - found.before < _MEMORY_SHARE * found.before:
        return None
    text = (
        f"Memory of {watched.name.removeprefix('memory of ')} grows by {human.size(step)} a step since step"
        f" {watched.x[found.first]}: from {human.size(found.before)} to {human.size(found.after)}."
    )
    # Growth since the first steps may end by itself: caches fill, allocators fragment.
    is_grave = found.first >= _BEFORE or step >= _LEAK or found.after >= _MANIFOLD * found.before
    severity = Severity.WARNING if is_grave else Severity.NOTICE
    return _shift(watched, found.first, text, severity, is_growth=True)


# -- words -------------------------------------------------------------------------------------------------------------


def _upper(watched: Watched) -> str:
    """Return what a sentence begins with: a key of the program stays as it is."""
    return watched.name if watched.chart else human.capital(watched.name)


def _place(watched: Watched, place: int) -> str:
    if not watched.by_step:
        return human.clock(watched.x[place])
    return f"{watched.counts} {watched.x[place]}"


def _shift(
    watched: Watched, place: int, text: str, severity: Severity, *, is_growth: bool = False, code: str = VALUE
) -> ValueChange:
    look_at = _PAIRS if _OF_PAIRS.search(watched.name) else _LOOK_AT.get(watched.link)
    finding = Finding(
        code,
        severity,
        text,
        watched.section,
        subject=watched.subject,
        chart=watched.chart,
        cost=(len(watched.x) - place) / len(watched.x),
        onset=watched.x[place] if watched.by_step else None,
        counts=watched.counts,
        look_at=[look_at] if look_at is not None else [],
        points=around(watched.x[place], watched.x, watched.values, watched.unit),
    )
    return ValueChange(watched.link, watched.x[place], finding, watched, is_growth)
