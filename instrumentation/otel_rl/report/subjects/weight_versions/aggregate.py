"""Versions of the weights by engine, from the rows of rollouts: which were seen, and how far behind the engine was.

An engine lags in a step where every rollout of the step that it answered ended with it behind: engines get new weights
one after another, and a rollout that ends meanwhile says nothing. That all engines of a loop are behind may be its
way, as where weights are synced every third step: what counts then is a lag that is longer than ever before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.report.core import thresholds
from otel_rl.report.core.collected import asked_once
from otel_rl.semconv import attributes as names
from otel_rl.store.tables import samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.report.core.collected import Collected
    from otel_rl.store.tables.samples import Row

#: Engines that are told apart, and steps of each that are kept, the latest.
ENGINES, STEPS = 64, 2000
#: Between the names of engines in a row.
_SEPARATOR = ", "
#: Rollouts in a row that stand for a step where there are none.
WITHOUT_STEPS = 64
#: Versions in which an engine and the trainer have to meet.
_ENOUGH_MET = 2


class StepOfAttempt(NamedTuple):
    """A step of one attempt, or so many rollouts outside of steps: the ``part`` of them."""

    attempt: int
    part: int
    iteration: int | None


@dataclass(slots=True)
class _OfStep:
    """Rollouts of one step that an engine answered, and the fewest and most versions that it was behind."""

    rollouts: int = 0
    least: int = 0
    most: int = 0

    def add(self, behind: int) -> None:
        self.least = min(self.least, behind) if self.rollouts else behind
        self.most = max(self.most, behind)
        self.rollouts += 1


class Lag(NamedTuple):
    """A stretch of steps in which an engine was behind.

    Attributes:
        since: its first step.
        steps: how many steps it is.
        behind: most versions.
        rollouts: rollouts in it that the engine answered.
        is_left: it has ended: the engine has caught up.
    """

    since: StepOfAttempt
    steps: int
    behind: int
    rollouts: int
    is_left: bool


@dataclass(slots=True)
class EngineHistory:
    """What one engine has answered.

    Attributes:
        rollouts: all that it answered.
        oldest: lowest version seen.
        newest: highest version seen.
        latest: version seen last.
        behind: versions that it was behind, at the end of the last rollout of which that is known.
        judged: rollouts of which it is known.
    """

    rollouts: int = 0
    oldest: int = 0
    newest: int = 0
    latest: int = 0
    behind: int | None = None
    judged: int = 0
    #: Versions that it had while the trainer had the same, the first two.
    _met: set[int] = field(default_factory=set)
    _versions: set[int] = field(default_factory=set)
    _steps: dict[StepOfAttempt, _OfStep] = field(default_factory=dict)

    def add(self, step: StepOfAttempt, version: int, behind: int | None, trainers: int | None = None) -> None:
        """Take in a rollout, of which the processes may not know how far behind its engine was.

        Then the version that the program gave it says so, where the engine has had the same one for two versions: it
        counts as the trainer does.
        """
        if version == trainers and len(self._met) < _ENOUGH_MET:
            self._met.add(version)
        if behind is None and trainers is not None and len(self._met) == _ENOUGH_MET:
            behind = max(trainers - version, 0)
        self.oldest = min(self.oldest, version) if self.rollouts else version
        self.newest = max(self.newest, version)
        self.rollouts += 1
        self.latest = version
        if len(self._versions) < STEPS:
            self._versions.add(version)
        if behind is None:
            return
        self.behind = behind
        self.judged += 1
        of_step = self._steps.get(step)
        if of_step is None:
            of_step = self._steps[step] = _OfStep()
            if len(self._steps) > STEPS:
                del self._steps[next(iter(self._steps))]
        of_step.add(behind)

    @property
    def versions(self) -> int:
        """How many versions were seen."""
        return len(self._versions)

    @property
    def steps(self) -> list[StepOfAttempt]:
        """Its steps, in order."""
        return sorted(self._steps, key=lambda step: (step.attempt, step.part, step.iteration or 0))

    def is_current_in(self, step: StepOfAttempt) -> bool:
        """Return whether it has answered a rollout of the step without being behind."""
        of_step = self._steps.get(step)
        return of_step is not None and of_step.least == 0

    def lag(self, others: list[EngineHistory]) -> Lag | None:
        """Return the worst stretch in which a sync had left it out; ``others`` may have been current meanwhile."""
        found = [lag for lag, is_left_out in self._lags(others) if is_left_out]
        return max(found, key=lambda lag: (lag.behind, lag.rollouts), default=None)

    def _lags(self, others: list[EngineHistory]) -> Iterator[tuple[Lag, bool]]:
        """Yield the stretches in which it was behind, and whether that is no way of the loop."""
        current, longest = 0, 0
        lagging: list[StepOfAttempt] = []
        for step in self.steps:
            if self._steps[step].least:
                lagging.append(step)
                continue
            if lagging:
                lag = self._lag(lagging, is_left=True)
                yield lag, self._is_left_out(lag, lagging, others, longest, current)
                longest, lagging = max(longest, lag.behind), []
            current += 1
        if lagging:
            lag = self._lag(lagging, is_left=False)
            yield lag, self._is_left_out(lag, lagging, others, longest, current)

    def _lag(self, steps: list[StepOfAttempt], *, is_left: bool) -> Lag:
        of_steps = [self._steps[step] for step in steps]
        behind, rollouts = max(one.most for one in of_steps), sum(one.rollouts for one in of_steps)
        return Lag(steps[0], len(steps), behind, rollouts, is_left)

    def _is_left_out(
        self, lag: Lag, steps: list[StepOfAttempt], others: list[EngineHistory], longest: int, current: int
    ) -> bool:
        if lag.rollouts < thresholds.FEWEST_STALE:
            return False
        if any(other.is_current_in(step) for other in others for step in steps):
            return True
        usual = thresholds.USUAL_LAG
        return lag.behind > longest and (current >= usual or lag.behind >= usual)


_ANSWERED = """
SELECT sample.*, rank, p.start FROM sample JOIN process p USING (process)
WHERE engines IS NOT NULL ORDER BY p.start, time, sample"""


@dataclass(slots=True)
class WeightVersions:
    """The engines of the run that say versions, by name, in the order in which they came.

    ``tokens`` are the output tokens that are known by version, ``old_tokens`` those that older weights made.
    """

    engines: dict[str, EngineHistory] = field(default_factory=dict)
    tokens: int = 0
    old_tokens: int = 0
    _without_step: int = 0

    def add(self, row: Row, attempt: int) -> None:
        """Take in a sample that engines have answered."""
        engines = str(row.get(names.RL_ROLLOUT_ENGINES)).split(_SEPARATOR)
        numbers = map(row.get, (names.RL_ROLLOUT_ENGINE_VERSIONS, names.RL_ROLLOUT_ENGINE_VERSIONS_BEHIND))
        part = 0
        if row.iteration is None:
            part = 1 + self._without_step // WITHOUT_STEPS
            self._without_step += 1
        old, made = row.get(names.RL_ROLLOUT_TOKENS_BEHIND), row.get(names.RL_ROLLOUT_OUTPUT_TOKENS)
        if type(old) is int and type(made) is int:
            self.tokens += made
            self.old_tokens += min(old, made)
        step = StepOfAttempt(attempt, part, row.iteration)
        versions, lags = (column if isinstance(column, list) else [] for column in numbers)
        given = row.get(names.RL_POLICY_VERSION)
        trainers = int(given) if isinstance(given, str | int) and str(given).isdecimal() else None
        for engine, version, behind in zip_longest(engines, versions, lags):
            if engine is None or type(version) is not int or (behind is not None and type(behind) is not int):
                continue
            if engine in self.engines or len(self.engines) < ENGINES:
                self.engines.setdefault(engine, EngineHistory()).add(step, version, behind, trainers)

    def stale(self) -> dict[str, Lag]:
        """Return the engines that a sync had left out, with their worst lag."""
        found: dict[str, Lag] = {}
        for name, history in self.engines.items():
            others = [other for other in self.engines.values() if other is not history and _count_alike(history, other)]
            lag = history.lag(others)
            if lag is not None:
                found[name] = lag
        return found


@asked_once
def of_run(collected: Collected) -> WeightVersions:
    """Return what the engines of the run have answered."""
    found = WeightVersions()
    for record in collected.tables.stream(_ANSWERED):
        found.add(samples.of_cells(record), record["start"])
    return found


def _count_alike(history: EngineHistory, other: EngineHistory) -> bool:
    """Return whether the other engine has had a version that this one was behind by: they may be of one policy."""
    return other.newest > history.oldest and other.oldest <= history.newest


def as_json(weight_versions: WeightVersions) -> list[dict[str, Any]]:
    """Return the engines for programs."""
    stale = weight_versions.stale()
    return [
        {
            "engine": name,
            "rollouts": history.rollouts,
            "versions": history.versions,
            "oldest": history.oldest,
            "newest": history.newest,
            "latest": history.latest,
            "behind": history.behind,
            "stale": _as_json(stale.get(name)),
        }
        for name, history in weight_versions.engines.items()
    ]


def _as_json(lag: Lag | None) -> dict[str, Any] | None:
    if lag is None:
        return None
    return {
        "since_step": lag.since.iteration,
        "steps": lag.steps,
        "behind": lag.behind,
        "rollouts": lag.rollouts,
        "caught_up": lag.is_left,
    }
