"""The state machine of one rule: when its state rises and falls, since when, and by what evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.health import calls, divergence, durations, output, policy, preferences, reward_falls, rewards, updates
from otel_rl.health.points import Points, points
from otel_rl.health.reading import HEALTHY, TOO_FEW
from otel_rl.health.rule_table import RULES
from otel_rl.health.verdict import State
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.health.curves import Curves
    from otel_rl.health.reading import Judge, Limits, RuleReading

#: Code -> what makes its judge; those with a memory of their own are classes.
JUDGES: dict[str, Callable[[], Judge]] = {
    Code.P1_PLATEAU: lambda: rewards.plateau,
    Code.P2_OSCILLATION: lambda: rewards.oscillation,
    Code.P3_KL_EXPLOSION: lambda: divergence.kl_explosion,
    Code.P4_ENTROPY_COLLAPSE: lambda: policy.entropy_collapse,
    Code.P5_REWARD_HACKING: lambda: rewards.reward_hacking,
    Code.P6_VALIDATION_COLLAPSE: lambda: reward_falls.validation_collapse,
    Code.P7_SLOW_STEP: durations.SlowStepRule,
    Code.P8_GARBLED_OUTPUT: lambda: output.garbled_output,
    Code.P9_TRUNCATION: lambda: output.truncation,
    Code.NO_SIGNAL: rewards.NoSignal,
    Code.LEARNING_RATE: policy.LearningRate,
    Code.GRADIENT_NORM: policy.GradientNorm,
    Code.NON_FINITE: policy.NotFinite,
    Code.STALENESS: lambda: output.staleness,
    Code.ENGINE_DRIFT: output.EngineDrift,
    Code.REWARD_COLLAPSE: reward_falls.RewardCollapse,
    Code.LOSS_DIVERGENCE: updates.LossDivergence,
    Code.ENTROPY_EXPLOSION: lambda: policy.entropy_explosion,
    Code.KL_ESTIMATE: lambda: divergence.kl_estimate,
    Code.NO_UPDATE: updates.NoUpdate,
    Code.PREFERENCE: preferences.Preference,
    Code.UNSCORED: lambda: output.unscored,
    Code.FAILING_CALLS: lambda: calls.failing,
    Code.SLOW_CALLS: calls.SlowCalls,
    Code.STALE_ENGINE: lambda: calls.stale_engine,
}
#: Rules that count steps, and are asked at each one.
_COUNTS = frozenset({Code.NO_SIGNAL, Code.LEARNING_RATE, Code.NON_FINITE, Code.KL_ESTIMATE, Code.NO_UPDATE})
#: A rule whose state has been the same at so many steps in a row is asked more rarely, until that changes: at every
#: second step while it warns, at every fourth while it is critical.
STEADY_READINGS = 8
READING_INTERVAL = {State.WARNING: 2, State.CRITICAL: 4}
#: A rule is unobserved when its inputs have not come for so many steps, and for so many of their usual distances.
SILENT_STEPS, SILENT_DISTANCES = 20, 5


@dataclass(slots=True)
class Episode:
    """A time in which a rule was a warning or critical."""

    severity: State
    onset: int
    #: The reading that is worst, and its evidence in words.
    reading: RuleReading
    evidence: str
    #: The step at which it was over.
    until: int | None = None


class Machine:
    """The state of one rule."""

    def __init__(self, code: str, limits: Limits) -> None:
        self.code = code
        self.rule = RULES[code]
        self.state = State.UNOBSERVED
        #: The present episode; and the worst that is over.
        self.episode: Episode | None = None
        self.worst: Episode | None = None
        #: Steps that were judged since the steps began.
        self.judged = 0
        self._limits = limits
        self._raise_after, self._clear_after = int(limits["raise_after"]), int(limits["clear_after"])
        self._inputs = frozenset(name for needed in self.rule.needs for name in needed)
        self.restart()

    def restart(self, step: int | None = None) -> None:
        """Begin anew after ``step``: forget what was seen, keep what was found."""
        self._close(step)
        self.state = State.UNOBSERVED
        self.judged = 0
        self._judge = JUDGES[self.code]()
        #: Readings in a row that reach a level; and that are better than the state, with the worst of these.
        self._warnings = self._criticals = 0
        self._better, self._best = 0, State.UNOBSERVED
        self._onset: int | None = None
        self._idle = self._distance = 0
        self._has_needs = False
        self._is_quiet = False
        #: Readings in a row of the same warning or critical state, and the steps since these are enough.
        self._steady = self._passed = 0

    def look(self, curves: Curves, fresh: set[str], step: int) -> State | None:
        """Judge the step ``step`` when an input is ``fresh``; return the state before where it has changed."""
        if self._inputs.isdisjoint(fresh) or not (self._has_needs or self.has_needs(curves)):
            return self._miss(step)
        if self._idle > self._distance:  # noqa: PLR1730 - a call costs more than the rest, for each rule at each step
            self._distance = self._idle
        self._idle, self._has_needs = 0, True
        if self._steady >= STEADY_READINGS:
            self._passed += 1
            if self._passed % READING_INTERVAL[self.state]:
                return None
        reading = self._judge(curves, self._limits, self.state)
        if reading is TOO_FEW:
            return None
        self.judged += 1
        if self._is_quiet and reading is HEALTHY:
            return None
        before = self._take(reading, step)
        self._is_quiet = self.state == reading.level == State.HEALTHY
        is_steady = self.state == reading.level >= State.WARNING and self.code not in _COUNTS
        self._steady = self._steady + 1 if is_steady else 0
        return before

    def has_needs(self, curves: Curves) -> bool:
        """Return whether one of the alternatives of inputs has been logged."""
        return any(all(map(curves.has, needed)) for needed in self.rule.needs)

    def points(self, curves: Curves) -> Points:
        """Return how many values the rule has and needs; it has enough where it has found nothing, else too few."""
        observed, needed = points(self.code, self.rule, self._limits, curves)
        if self.state == State.HEALTHY:
            return Points(observed, min(needed, observed))
        if self.state == State.UNOBSERVED and self._warnings:
            return Points(observed, observed + self._raise_after - self._warnings)
        return Points(observed, needed)

    def _miss(self, step: int) -> State | None:
        self._idle += 1
        if self.state == State.UNOBSERVED or self._idle <= max(SILENT_STEPS, SILENT_DISTANCES * self._distance):
            return None
        return self._change(State.UNOBSERVED, step)

    def _take(self, reading: RuleReading, step: int) -> State | None:
        level = reading.level
        # One high value is no warning yet, and no reason to call the rule healthy.
        is_first = self.state == State.UNOBSERVED and level == State.HEALTHY
        before = self._change(State.HEALTHY, step) if is_first else None
        if level == self.state:
            self._stays(reading)
            return before
        self._warnings = self._warnings + 1 if level >= State.WARNING else 0
        self._criticals = self._criticals + 1 if level >= State.CRITICAL else 0
        if self.episode is None:
            # The rise begins where its first reading saw it begin; a later reading may see less far back.
            onset = reading.describe().onset if level >= State.WARNING else None
            self._onset = onset if onset is None or self._onset is None else min(self._onset, onset)
        rises = self._rises()
        if rises > max(self.state, State.HEALTHY):
            raised = self._change(rises, step, reading)
            return before if before is not None else raised
        fallen = self._fall(level, step)
        return before if before is not None else fallen

    def _stays(self, reading: RuleReading) -> None:
        self._better, self._best = 0, State.UNOBSERVED
        self._criticals = 0
        if reading.level >= State.WARNING:
            self._keep(reading)
        else:
            self._warnings, self._onset = 0, None

    def _rises(self) -> State:
        """Return the level that enough readings in a row have reached."""
        if self._criticals >= self._raise_after:
            return State.CRITICAL
        return State.WARNING if self._warnings >= self._raise_after else State.HEALTHY

    def _fall(self, level: State, step: int) -> State | None:
        if level >= self.state:
            self._better, self._best = 0, State.UNOBSERVED
            return None
        self._better, self._best = self._better + 1, max(self._best, level)
        return self._change(self._best, step) if self._better >= self._clear_after else None

    def _change(self, state: State, step: int, reading: RuleReading | None = None) -> State:
        before, self.state = self.state, state
        self._steady = 0
        self._better, self._best = 0, State.UNOBSERVED
        if reading is not None:
            if self.episode is None:
                onset, evidence = reading.describe()
                self.episode = Episode(state, onset if self._onset is None else self._onset, reading, evidence)
            else:
                self.episode.severity = max(self.episode.severity, state)
                self._keep(reading)
        elif state < State.WARNING:
            self._close(step)
            self._onset = None
        return before

    def _keep(self, reading: RuleReading) -> None:
        """Keep the reading that is worst."""
        episode = self.episode
        if episode is None or reading.level < episode.reading.level:
            return
        if reading.level > episode.reading.level or reading.weight > episode.reading.weight:
            episode.reading, episode.evidence = reading, reading.describe().evidence

    def _close(self, step: int | None) -> None:
        episode, self.episode = self.episode, None
        if episode is not None:
            episode.until = step
            if self.worst is None or episode.severity >= self.worst.severity:
                self.worst = episode
