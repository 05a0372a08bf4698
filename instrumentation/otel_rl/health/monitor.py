"""The rules over one loop: fed with what the trainer logs and with step times, live and from records alike.

Values of one step are judged together: when the step has ended, when a value of a later step comes, or at the end.
A value that goes back in its own curve, and a step that does, begin a new stretch: what was seen before is forgotten,
what was found is kept.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.health.curves import Curves
from otel_rl.health.machine import Machine
from otel_rl.health.rule_table import INPUTS
from otel_rl.health.verdict import State, Verdict, by_weight
from otel_rl.semconv import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.health.machine import Episode
    from otel_rl.health.rule_definitions import Rules

#: Keys that a sentence names.
_NAMED = 6
#: Name of the curve of step times that this package has measured.
STEP_KEY = metrics.RL_LOOP_DURATION.name


class StateChange(NamedTuple):
    """The state of a rule has changed at step ``iteration``."""

    code: str
    before: State
    state: State
    iteration: int
    #: What is or was wrong; None where nothing was.
    episode: Episode | None
    next_steps: tuple[str, ...]

    @property
    def is_reported(self) -> bool:
        """True for a change that deserves an event: to or from a warning or something critical."""
        return max(self.before, self.state) >= State.WARNING


class Monitor:
    """All rules that are switched on, over the steps of one loop of one attempt."""

    def __init__(self, rules: Rules, loop: str = "", attempt: str = "") -> None:
        self.loop, self.attempt = loop, attempt
        #: Inputs that the program gave and of which no record has the values: offline, those of ``otel_rl.metric``.
        self.given: frozenset[str] = frozenset()
        #: Inputs that were logged before the steps began again.
        self._before: frozenset[str] = frozenset()
        self._rules = rules
        self.machines = [Machine(code, limits) for code, limits in rules.limits.items()]
        self._curves = Curves(rules.keys)
        self._fresh: set[str] = set()
        self._last_step = -1

    # -- what comes in ---------------------------------------------------------------------------------------------

    def log(self, last: int, values: Mapping[str, Any], first: int | None = None) -> list[StateChange]:
        """One log call at step ``last``; it covers the steps from ``first`` on."""
        curves = self._curves
        changes: list[StateChange] = []
        if last < 0:
            return changes
        known = curves.known(values)
        if last < curves.last and any(curves.goes_back(last, key, input_of_key[0]) for key, _, input_of_key in known):
            changes += self.restart()
            curves = self._curves
        elif last > curves.last:
            changes += self.judge()
        begin = last if first is None or not 0 <= first <= last else first
        for key, number, input_of_key in known:
            name = curves.add(begin, last, key, number, input_of_key)
            if name is not None:
                self._fresh.add(name)
        if self._fresh:
            self._saw(begin, last)
        return changes

    def step(
        self, iteration: int, seconds: float | None = None, phases: Mapping[str, float] | None = None
    ) -> list[StateChange]:
        """Step ``iteration`` has ended ``seconds`` after the step before it; ``phases`` are parts of that time."""
        changes = self.restart() if iteration <= self._last_step else []
        if iteration < 0:
            return changes
        if iteration > self._curves.last:
            changes += self.judge()
        self._last_step = iteration
        if seconds is not None and isfinite(seconds):
            self._curves.add_own("step_time", STEP_KEY, iteration, seconds)
            self._curves.add_phases(iteration, phases or {})
            self._fresh.add("step_time")
        self._saw(iteration, iteration)
        return changes + self.judge()

    def _saw(self, first: int, last: int) -> None:
        curves = self._curves
        curves.first = first if curves.first < 0 else min(curves.first, first)
        covered = last - first + 1
        curves.covered = covered if last > curves.last else max(curves.covered, covered)
        curves.last = max(curves.last, last)

    def judge(self) -> list[StateChange]:
        """Judge what has come since the last time."""
        fresh, self._fresh = self._fresh, set()
        step = self._curves.last
        changes: list[StateChange] = []
        if not fresh:
            return []
        for machine in self.machines:
            was = machine.episode
            before = machine.look(self._curves, fresh, step)
            if before is not None:
                episode = machine.episode or was
                changes.append(StateChange(machine.code, before, machine.state, step, episode, machine.rule.next_steps))
        return changes

    def withdraw(self, code: str) -> list[StateChange]:
        """Take back what a rule says: its values were not what they seemed."""
        step = self._curves.last
        changes: list[StateChange] = []
        for machine in self.machines:
            if machine.code == code and machine.state != State.UNOBSERVED:
                before, was = machine.state, machine.episode
                machine.restart(step)
                changes.append(StateChange(code, before, machine.state, step, was, machine.rule.next_steps))
        return changes

    def restart(self) -> list[StateChange]:
        """Begin the steps anew: judge what has come, then forget it."""
        changes, step = self.judge(), self._curves.last
        for machine in self.machines:
            before, was = machine.state, machine.episode
            machine.restart(step)
            if before != State.UNOBSERVED:
                changes.append(StateChange(machine.code, before, machine.state, step, was, machine.rule.next_steps))
        self._before = self._before.union(filter(self._curves.has, INPUTS))
        self._curves = Curves(self._rules.keys)
        self._last_step = -1
        return changes

    # -- what comes out --------------------------------------------------------------------------------------------

    @property
    def last(self) -> int | None:
        """The last step that was seen."""
        return self._curves.last if self._curves.last >= 0 else None

    def states(self) -> dict[str, State]:
        """Code -> state."""
        return {machine.code: machine.state for machine in self.machines}

    def verdicts(self) -> list[Verdict]:
        """Return the verdict of every rule, the heaviest first, also of what is over."""
        return sorted((self._verdict(machine) for machine in self.machines), key=by_weight)

    def _verdict(self, machine: Machine) -> Verdict:
        episode = machine.episode
        if episode is None or (machine.worst is not None and machine.worst.severity > episode.severity):
            episode = machine.worst or episode
        if episode is None:
            return self._nothing_found(machine)
        reading, known = episode.reading, machine.points(self._curves)
        return Verdict(
            code=machine.code,
            title=machine.rule.title,
            severity=episode.severity,
            onset=episode.onset,
            until=episode.until,
            evidence=episode.evidence,
            next_steps=machine.rule.next_steps,
            metric=reading.metric,
            value=reading.value,
            threshold=reading.threshold,
            unit=reading.unit,
            cost=self._share(episode),
            attempt=self.attempt,
            loop=self.loop,
            observed=known.observed,
            needed=known.needed,
        )

    def _share(self, episode: Episode) -> float:
        last = self._curves.last if self._curves.last >= 0 else (episode.until or episode.onset)
        first = min(self._curves.first if self._curves.first >= 0 else episode.onset, episode.onset)
        until = last if episode.until is None else episode.until
        return max(min((until - episode.onset + 1) / max(last - first + 1, 1), 1.0), 0.0)

    def _nothing_found(self, machine: Machine) -> Verdict:
        is_healthy = machine.state == State.HEALTHY
        words = self._checked(machine) if is_healthy else self._unobserved(machine)
        known = machine.points(self._curves)
        return Verdict(
            code=machine.code,
            title=machine.rule.title,
            severity=machine.state,
            onset=None,
            until=None,
            evidence=words,
            attempt=self.attempt,
            loop=self.loop,
            observed=known.observed,
            needed=known.needed,
            lacking=() if is_healthy else self._lacking(machine),
            keys=self._keys(machine),
        )

    def _keys(self, machine: Machine) -> tuple[str, ...]:
        names = {name for needed in machine.rule.needs for name in needed}
        keys = [curve.key for name in sorted(names) if (curve := self._curves.get(name)) is not None]
        for name in sorted(names & self._curves.many.keys()):
            keys += sorted(self._curves.many[name])
        return tuple(keys)

    def _checked(self, machine: Machine) -> str:
        return f"judged {machine.judged} times, by {', '.join(self._keys(machine)[:_NAMED])}"

    def _unobserved(self, machine: Machine) -> str:
        if self._curves.last < 0:
            return "no step was seen"
        if machine.has_needs(self._curves):
            known = machine.points(self._curves)
            return "too few steps" if known.observed < known.needed else "its inputs are no longer logged"
        lacking = self._lacking(machine)
        if not lacking and not self._before.isdisjoint(name for needed in machine.rule.needs for name in needed):
            return "too few values since the steps began again"
        if not lacking:
            return "given by otel_rl.metric: judged only while the program runs, and it came to no verdict"
        return f"not logged: {', '.join(f'{INPUTS[name].brief} ({INPUTS[name].keys[0]})' for name in lacking)}"

    def _lacking(self, machine: Machine) -> tuple[str, ...]:
        """Return the inputs that are missing, of the alternative that lacks least."""
        has, given = self._curves.has, self.given
        alternatives = (
            tuple(name for name in needed if not has(name) and name not in given | self._before)
            for needed in machine.rule.needs
        )
        return min(alternatives, key=len)
