"""The health rules over the records of a run: the monitor that runs live, fed with log records and step spans.

    verdicts = Collected(Reader(source), subjects.load()).read(advance)[HealthReplay].verdicts()

Each attempt, process and loop has a monitor of its own, and guessed steps have one beside what the program logs. Steps
that begin again start anew, as they do live. Per attempt and loop counts the process with the lowest rank, which is
rank 0 where its files are there. Without them the rules on step times judge the lowest rank that is; those on what rank
0 logs are unobserved.

Log records and spans come from different files, one after the other. They are kept, as short as the rules need them,
and fed in the order of their times at the end. Of a run with more than ``KEPT``, step times are judged on their own.

Values of ``otel_rl.metric`` outside of all steps are in no record, only gauges have them. What a rule has said of
them live is taken from its events: what it has found, and at the end that it has judged and found nothing. Only of
samples without a score the rows know better, as later scores are in them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from otel_rl.core import settings
from otel_rl.health import user_rules
from otel_rl.health.curves import Curves
from otel_rl.health.durations import BETWEEN, GUESSED_PARTS, OTHER_PHASES, PHASES
from otel_rl.health.monitor import Monitor
from otel_rl.health.rule_table import RULES
from otel_rl.health.verdict import State, Verdict, by_weight
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics, spans
from otel_rl.semconv.attributes import RlHealthCodeValues as Code
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none

if TYPE_CHECKING:
    from otel_rl.health.rule_definitions import Rules
    from otel_rl.store.reader import Log, Point, Process, Span

#: Most monitors; of more the rest is left out.
_MONITORS = 64
#: Most log records and step spans of one loop that are kept; a record takes about one kilobyte.
KEPT = 40_000
#: Most steps whose phases have come and whose own span has not.
_OPEN_STEPS = 1000
#: Most keys of gauges that are remembered of a process.
_KEYS = 400
_PHASES = frozenset({*PHASES.values(), *OTHER_PHASES, *GUESSED_PARTS})
_STATES = {state.word: state for state in State}
_NO_RANK = 1 << 31


@dataclass(slots=True)
class _Logged:
    """A log call with the values that rules read."""

    time: int
    last: int
    values: dict[str, float]
    first: int | None


@dataclass(slots=True)
class _TimedStep:
    """A step with the seconds since the end of the one before it, and its phases."""

    time: int
    iteration: int
    seconds: float
    phases: dict[str, float]


class _ReplayedLoop:
    """A loop of a process: what has come of it, and its monitor."""

    def __init__(self, rules: Rules, rank: int, loop: str, attempt: str) -> None:
        self.rank = rank
        #: The last step, and its end in ns since the epoch.
        self.iteration, self.ended = -1, 0
        self._rules = rules
        self._monitor = Monitor(rules, loop, attempt)
        #: Judges the step times where there was too much to keep.
        self._durations: Monitor | None = None
        self._kept: list[_Logged | _TimedStep] = []

    def add(self, item: _Logged | _TimedStep) -> None:
        """Keep it, or feed it where too much has been kept."""
        if self._durations is None:
            self._kept.append(item)
            if len(self._kept) >= KEPT:
                self._feed_kept()
                self._durations = Monitor(self._rules, self._monitor.loop, self._monitor.attempt)
        else:
            _feed(self._durations if isinstance(item, _TimedStep) else self._monitor, item)

    def settle(self, before: int) -> None:
        """Feed what is from before this moment."""
        settled = [item for item in self._kept if item.time < before]
        if settled:
            self._kept = [item for item in self._kept if item.time >= before]
            self._feed_in_order(settled)

    def _feed_kept(self) -> None:
        self._feed_in_order(self._kept)
        self._kept = []

    def _feed_in_order(self, items: list[_Logged | _TimedStep]) -> None:
        # What was logged in a step comes before its end.
        for item in sorted(items, key=lambda item: (item.time, isinstance(item, _TimedStep))):
            _feed(self._monitor, item)

    def verdicts(self, given: frozenset[str]) -> list[Verdict]:
        """Return the verdict of every rule; ``given`` are inputs of which there are gauges."""
        self._feed_kept()
        self._monitor.given = given
        self._monitor.judge()
        verdicts = self._monitor.verdicts()
        if self._durations is None:
            return verdicts
        timed = [verdict for verdict in self._durations.verdicts() if verdict.code == Code.P7_SLOW_STEP]
        return [verdict for verdict in verdicts if verdict.code != Code.P7_SLOW_STEP] + timed


def _feed(monitor: Monitor, item: _Logged | _TimedStep) -> None:
    if isinstance(item, _TimedStep):
        monitor.step(item.iteration, item.seconds, item.phases)
    else:
        monitor.log(item.last, item.values, item.first)


class HealthReplay:
    """Feeds the monitors; :meth:`verdicts` says what the rules found."""

    def __init__(self) -> None:
        named = settings.current().health_rules
        self._is_off = named == "off"
        #: What is wrong with the file of ``OTEL_RL_HEALTH_RULES``, or nothing.
        self._rules, self.complaint = user_rules.load(None if self._is_off else named)
        #: Knows which keys rules read.
        self._curves = Curves(self._rules.keys)
        self._followed: dict[tuple[tuple[int, ...], str, str, bool], _ReplayedLoop] = {}
        #: Attempt -> the lowest rank that has reported.
        self._lowest: dict[tuple[int, ...], int] = {}
        #: Process and trace -> seconds of each phase.
        self._phases: dict[tuple[str, str], dict[str, float]] = {}
        #: Attempt, code and loop -> what its events say.
        self._live: dict[tuple[tuple[int, ...], str, str], Verdict] = {}
        #: Attempt and loop -> the rules that have found nothing at the end of the process.
        self._healthy: dict[tuple[str, str], frozenset[str]] = {}
        #: Verdicts on what has come so far; None where something has come since.
        self._verdicts: list[Verdict] | None = None
        #: Attempt and rank -> keys of which there are gauges.
        self._gauges: dict[tuple[tuple[int, ...], int], dict[str, float]] = {}

    # -- what comes in ---------------------------------------------------------------------------------------------

    def add_log(self, log: Log) -> None:
        """Take in a record of a trainer's log call, or an event of a rule; others are ignored."""
        self._verdicts = None
        if log.event == events.RL_STEP.name:
            iteration = int_or_none(log.attributes.get(names.RL_LOOP_ITERATION))
            followed = self._of(log.process, log.attributes)
            if iteration is not None and isinstance(log.body, dict) and followed is not None:
                values = {key: number for key, number, _ in self._curves.known(log.body)}
                first = int_or_none(log.attributes.get(names.RL_STEP_FIRST))
                followed.add(_Logged(log.time, iteration, values, first))
        elif log.event == events.RL_HEALTH_CHANGED.name:
            self._add_event(log)
        elif log.event == events.RL_HEALTH_FINAL.name and len(self._healthy) < _MONITORS:
            codes = log.attributes.get(names.RL_HEALTH_HEALTHY)
            loop = str(log.attributes.get(names.RL_LOOP_NAME) or "")
            key = _words(log.process.attempt), loop
            self._healthy[key] = self._healthy.get(key, frozenset()).union(codes if isinstance(codes, list) else ())

    def add_point(self, point: Point) -> None:
        """Take in that there is a gauge of a training value; others are ignored."""
        self._verdicts = None
        if point.metric == metrics.RL_TRAINER_METRIC.name:
            keys = self._gauges.setdefault((point.process.attempt, _rank(point.process)), {})
            if len(keys) < _KEYS:
                keys[str(point.attributes.get(names.RL_TRAINER_METRIC_KEY))] = point.value

    def add_span(self, span: Span) -> None:
        """Take in the step of a rank, or a phase; others are ignored."""
        self._verdicts = None
        if span.name in _PHASES:
            if names.RL_REWARD_NAME not in span.attributes and names.RL_ROLLOUT_ID not in span.attributes:
                of_step = self._phases.setdefault((span.process.key, span.trace_id), {})
                of_step[span.name] = of_step.get(span.name, 0.0) + span.seconds
                if len(self._phases) > _OPEN_STEPS:
                    del self._phases[next(iter(self._phases))]
        elif span.name == spans.RL_RANK_STEP.type:
            self._add_step(span)

    def _add_step(self, span: Span) -> None:
        phases = self._phases.pop((span.process.key, span.trace_id), {})
        if span.attributes.get(names.RL_LOOP_SOURCE) != LoopSource.GUESSED:
            phases = {name: seconds for name, seconds in phases.items() if name not in GUESSED_PARTS}
        iteration = int_or_none(span.attributes.get(names.RL_LOOP_ITERATION))
        followed = self._of(span.process, span.attributes)
        if iteration is None or followed is None:
            return
        period = span.seconds
        if iteration == followed.iteration + 1 and span.end > followed.ended > 0:
            period = (span.end - followed.ended) / 1e9
            phases[BETWEEN] = max(period - span.seconds, 0.0)
        followed.iteration, followed.ended = iteration, span.end
        followed.add(_TimedStep(span.end, iteration, period, phases))

    def _of(self, process: Process, attributes: dict[str, Any]) -> _ReplayedLoop | None:
        """Return the monitor of a process and loop; None for a rank above one that has reported."""
        attempt = process.attempt
        rank = _rank(process)
        lowest = self._lowest.setdefault(attempt, rank)
        if rank > lowest:
            return None
        self._lowest[attempt] = rank
        loop = str(attributes.get(names.RL_LOOP_NAME) or "")
        # Guessed steps are counted otherwise than what the program logs.
        is_guessed = attributes.get(names.RL_LOOP_SOURCE) == LoopSource.GUESSED
        key = (attempt, process.key, loop, is_guessed)
        followed = self._followed.get(key)
        if followed is None and len(self._followed) < _MONITORS:
            followed = self._followed[key] = _ReplayedLoop(self._rules, rank, loop, _words(attempt))
        return followed

    def _add_event(self, log: Log) -> None:
        get = log.attributes.get
        code, state = str(get(names.RL_HEALTH_CODE)), _STATES.get(str(get(names.RL_HEALTH_STATE)))
        loop, attempt = str(get(names.RL_LOOP_NAME) or ""), log.process.attempt
        rule = RULES.get(code)
        if rule is None or state is None:
            return
        key = (attempt, code, loop)
        known, iteration = self._live.get(key), int_or_none(get(names.RL_LOOP_ITERATION))
        before = _STATES.get(str(get(names.RL_HEALTH_PREVIOUS_STATE)), State.UNOBSERVED)
        self._live[key] = Verdict(
            code=code,
            title=rule.title,
            severity=max(state, before, known.severity if known is not None else state),
            onset=int_or_none(get(names.RL_HEALTH_ONSET_ITERATION)),
            until=iteration if state < State.WARNING else None,
            evidence=str(get(names.RL_HEALTH_EVIDENCE) or ""),
            next_steps=rule.next_steps,
            metric=str(get(names.RL_HEALTH_METRIC) or ""),
            value=float_or_none(get(names.RL_HEALTH_VALUE)),
            threshold=float_or_none(get(names.RL_HEALTH_THRESHOLD)),
            unit="",
            cost=0.0,
            attempt=_words(attempt),
            loop=loop,
        )

    def settle(self, before: int) -> None:
        """Let the rules look at what is from before this moment (ns since the epoch)."""
        for followed in self._followed.values():
            followed.settle(before)

    # -- what comes out --------------------------------------------------------------------------------------------

    def verdicts(self) -> list[Verdict]:
        """Return the verdict of every rule on the latest attempt, and findings in earlier ones; the gravest first."""
        if self._verdicts is None:
            self._verdicts = [] if self._is_off else self._judge()
        return self._verdicts

    def _judge(self) -> list[Verdict]:
        latest = max((key[0] for key in self._followed), default=())
        chosen: dict[tuple[tuple[int, ...], str, bool], _ReplayedLoop] = {}
        for (attempt, _, loop, is_guessed), followed in self._followed.items():
            other = chosen.get((attempt, loop, is_guessed))
            if other is None or followed.rank < other.rank:
                chosen[attempt, loop, is_guessed] = followed
        verdicts: list[Verdict] = []
        for (attempt, _, _), followed in chosen.items():
            known = self._curves.known(self._gauges.get((attempt, followed.rank), {}))
            of_loop = followed.verdicts(frozenset(name for _, _, (name, _) in known))
            verdicts += [verdict for verdict in of_loop if verdict.is_finding or attempt == latest]
        verdicts = verdicts or Monitor(self._rules).verdicts()
        return sorted(map(self._judged_live, self._with_live(verdicts)), key=by_weight)

    def _judged_live(self, verdict: Verdict) -> Verdict:
        """Return the verdict, healthy where the records lack its inputs and its last event says so."""
        if verdict.severity != State.UNOBSERVED or verdict.code not in self._healthy.get(
            (verdict.attempt, verdict.loop), ()
        ):
            return verdict
        evidence = "judged while the program ran, by values in no record"
        return replace(verdict, severity=State.HEALTHY, evidence=evidence, observed=0, needed=0, lacking=())

    def _with_live(self, verdicts: list[Verdict]) -> list[Verdict]:
        """Return the verdicts, with those of the live events where they are graver: records do not show all values.

        They do not where the rules of the report are other ones: the events are of the limits that were in force live.
        """
        worst: dict[tuple[str, str, str], Verdict] = {}
        for verdict in verdicts:
            of_rule = (verdict.attempt, verdict.code, verdict.loop)
            worst[of_rule] = max(worst.get(of_rule, verdict), verdict, key=_by_severity)
        for live in self._live.values():
            key = (live.attempt, live.code, live.loop)
            known = worst.get(key)
            is_graver = known is None or live.severity > known.severity
            if is_graver and self._has_limits_of(live) and not self._is_overruled(live, known):
                # What it has cost is known from records only.
                worst[key] = replace(live, cost=known.cost) if known is not None else live
        return list(worst.values())

    def _is_overruled(self, live: Verdict, known: Verdict | None) -> bool:
        """Return whether samples that had no score live have one now: the rows have the later scores joined to them.

        A share that the program gives itself is not that of the rows.
        """
        if live.code != Code.UNSCORED or known is None or known.severity == State.UNOBSERVED:
            return False
        return not any(live.metric in keys for keys in self._gauges.values())

    def _has_limits_of(self, live: Verdict) -> bool:
        """Return whether the rule is on, with its usual limits or with the threshold that was passed."""
        limits = self._rules.limits.get(live.code)
        if limits is None:
            return False
        usual = all(limits[name] == limit.value for name, limit in RULES[live.code].limits.items())
        return usual or live.threshold in limits.values()


def _by_severity(verdict: Verdict) -> tuple[State, bool, int]:
    return verdict.severity, not verdict.lacking, verdict.observed


def _rank(process: Process) -> int:
    return process.rank if process.rank is not None else _NO_RANK


def _words(attempt: tuple[int, ...]) -> str:
    return ".".join(map(str, attempt)) if any(attempt) else ""
