"""The health rules over the records of a run: the monitor that runs live, fed with log calls and steps in their order.

    found = verdicts(Collected(Reader(source), subjects.load()).read(advance))

Each attempt and loop has a monitor of its own, and guessed steps have one beside what the program logs. Steps that
begin again start anew, as they do live. Per attempt and loop counts the process with the lowest rank, which is rank 0
where its files are there. Without them the rules on step times judge the lowest rank that is; those on what rank 0 logs
are unobserved.

Values of ``otel_rl.metric`` outside of all steps are in no record, only gauges have them. What a rule has said of
them live is taken from its events.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.core import settings
from otel_rl.health import user_rules
from otel_rl.health.calls import LIVE_ONLY
from otel_rl.health.curves import EXCLUDING_KEYS, Curves
from otel_rl.health.durations import BETWEEN, GUESSED_PARTS, OTHER_PHASES, PHASES
from otel_rl.health.monitor import Monitor
from otel_rl.health.rule_table import RULES
from otel_rl.health.verdict import State, Verdict, by_weight
from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.loops import written
from otel_rl.report.subjects.health import told
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlHealthCodeValues as Code
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from otel_rl.health.rule_definitions import Rules
    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Process

#: Most monitors; of more those of the latest attempts.
_MONITORS = 64
_OFF = "off"
_NO_RANK = 1 << 31
#: Keys beside which others give no input.
_EXCLUDING = frozenset(chain.from_iterable(EXCLUDING_KEYS.values()))
_IS_GUESSED = f"s.source IS '{LoopSource.GUESSED}'"
_PLACES = f"""
SELECT process, loop, {_IS_GUESSED} FROM step s WHERE NOT is_root AND step IS NOT NULL
UNION SELECT process, loop, is_guessed FROM logged_key WHERE number > 0"""
_KEYS = """
SELECT logged_key, key FROM logged_key WHERE process = (SELECT process FROM process WHERE key = ?) AND loop = ?
AND is_guessed = ?"""
_LOGGED = """
SELECT time, step, first, logged_key, value FROM scalar WHERE logged_key IN ({keys})
ORDER BY time, step, first, rowid"""
#: Value of ``phase.name`` -> span type, by which the rule on step times calls it.
_SPANS = {name.removeprefix("rl."): name for name in (*PHASES.values(), *OTHER_PHASES, *GUESSED_PARTS)}
_OF_GUESSED = tuple(name.removeprefix("rl.") for name in GUESSED_PARTS)
#: A row for each phase of a step, and one for a step without any; what its trace has after it is none of its parts.
_STEPS = f"""
SELECT s.id, s.step, s.seconds, s.ended, h.name AS phase, sum(h.seconds) AS spent
FROM step s LEFT JOIN phase h ON h.process = s.process AND h.trace = s.trace AND h.ended <= s.ended
     AND coalesce(h.step, s.step) = s.step AND h.reward IS NULL AND NOT h.is_of_rollout
     AND h.name IN {tuple(_SPANS)} AND ({_IS_GUESSED} OR h.name NOT IN {_OF_GUESSED})
WHERE NOT is_root AND s.step IS NOT NULL AND s.process = (SELECT process FROM process WHERE key = ?)
      AND s.loop = ? AND ({_IS_GUESSED}) = ?
GROUP BY s.id, phase ORDER BY s.ended, s.id"""
_GAUGES = """
SELECT DISTINCT p.attempt, p.rank, series FROM point JOIN process p USING (process) WHERE metric = ? ORDER BY 1, 2"""
_IS_GIVEN = "SELECT 1 FROM point WHERE metric = ? AND series = ? LIMIT 1"


class _JudgedLoop(NamedTuple):
    """A loop of a process; guessed steps are counted otherwise than what the program logs."""

    process: Process
    loop: str
    is_guessed: int


class _LoggedValues(NamedTuple):
    """A log call at step ``last``; it covers the steps from ``first`` on."""

    time: int
    last: int
    first: int | None
    values: dict[str, float]


class _TimedStep(NamedTuple):
    """A step with the seconds since the end of the one before it, and its phases."""

    time: int
    iteration: int
    seconds: float
    phases: dict[str, float]


@asked_once
def rules(_collected: Collected) -> tuple[Rules, str]:
    """Return the rules, and what is wrong with the file of ``OTEL_RL_HEALTH_RULES``, or nothing."""
    named = settings.current().health_rules
    return user_rules.load(None if named == _OFF else named)


@asked_once
def verdicts(collected: Collected) -> list[Verdict]:
    """Return the verdict of every rule on the latest attempt, and findings in earlier ones; the gravest first."""
    if settings.current().health_rules == _OFF:
        return []
    found = list(_of_records(collected)) or Monitor(rules(collected)[0]).verdicts()
    healthy = told.healthy(collected)
    judged = (_judged_live(one, healthy) for one in _with_live(collected, found) if one.code not in LIVE_ONLY)
    return sorted(judged, key=by_weight)


# -- of the records ----------------------------------------------------------------------------------------------------


def _of_records(collected: Collected) -> Iterator[Verdict]:
    chosen = _chosen(collected)
    latest = max((place.process.attempt for place in chosen), default=())
    given = _given(collected)
    for place in chosen:
        attempt = place.process.attempt
        monitor = Monitor(rules(collected)[0], place.loop, told.words(attempt))
        _feed(monitor, _log_calls(collected, place), _steps(collected, place))
        monitor.given = given.get((written(attempt), place.process.rank), frozenset())
        monitor.judge()
        yield from (verdict for verdict in monitor.verdicts() if verdict.is_finding or attempt == latest)


def _chosen(collected: Collected) -> list[_JudgedLoop]:
    """Return of each attempt and loop the process with the lowest rank, the latest attempt first."""
    tables, leading = collected.tables, dict[tuple[tuple[int, ...], str, int], _JudgedLoop]()
    places = (_JudgedLoop(tables.process(number), *loop) for number, *loop in tables.rows(_PLACES))
    for place in sorted(places, key=_rank):
        leading.setdefault((place.process.attempt, place.loop, place.is_guessed), place)
    latest_first = sorted(sorted(leading), key=lambda key: key[0], reverse=True)
    return [leading[key] for key in latest_first[:_MONITORS]]


def _rank(place: _JudgedLoop) -> tuple[int, str]:
    rank = place.process.rank
    return _NO_RANK if rank is None else rank, place.process.key


def _log_calls(collected: Collected, place: _JudgedLoop) -> Iterator[_LoggedValues]:
    """Yield what was logged of the values that rules read, the earliest first."""
    tables, curves = collected.tables, Curves(rules(collected)[0].keys)
    of_loop = tables.rows(_KEYS, place.process.key, place.loop, place.is_guessed)
    keys = {
        row["logged_key"]: row["key"]
        for row in of_loop
        if row["key"] in _EXCLUDING or curves.input_of(row["key"]) is not None
    }
    rows = tables.stream(_LOGGED.format(keys=", ".join(map(str, keys))))
    for (time, step, first), of_call in groupby(rows, lambda row: tuple(row[:3])):
        values = {keys[row[3]]: math.nan if row[4] is None else row[4] for row in of_call}
        yield _LoggedValues(time, step, first, {key: number for key, number, _ in curves.known(values)})


def _steps(collected: Collected, place: _JudgedLoop) -> Iterator[_TimedStep]:
    """Yield the steps of a loop in the order of their ends."""
    before: Any = None
    rows = collected.tables.stream(_STEPS, place.process.key, place.loop, place.is_guessed)
    for _, of_step in groupby(rows, lambda row: row["id"]):
        parts = list(of_step)
        step, phases = parts[0], {_SPANS[part["phase"]]: part["spent"] for part in parts if part["phase"] is not None}
        period = step["seconds"]
        if before is not None and step["step"] == before["step"] + 1 and step["ended"] > before["ended"] > 0:
            period = (step["ended"] - before["ended"]) / 1e9
            phases[BETWEEN] = max(period - step["seconds"], 0.0)
        before = step
        yield _TimedStep(step["ended"], step["step"], period, phases)


def _feed(monitor: Monitor, calls: Iterable[_LoggedValues], steps: Iterable[_TimedStep]) -> None:
    # What was logged in a step comes before its end.
    items: Iterator[_LoggedValues | _TimedStep] = heapq.merge(calls, steps, key=lambda item: item.time)
    for item in items:
        if isinstance(item, _TimedStep):
            monitor.step(item.iteration, item.seconds, item.phases)
        else:
            monitor.log(item.last, item.values, item.first)


def _given(collected: Collected) -> dict[tuple[str, int | None], frozenset[str]]:
    """Return inputs of which there are gauges, by attempt and rank."""
    curves = Curves(rules(collected)[0].keys)
    rows = collected.tables.rows(_GAUGES, metrics.RL_TRAINER_METRIC.name)
    return {
        place: frozenset(name for _, _, (name, _) in curves.known({row["series"]: 0.0 for row in of_place}))
        for place, of_place in groupby(rows, lambda row: (row["attempt"], row["rank"]))
    }


# -- with what was told live -------------------------------------------------------------------------------------------


def _judged_live(verdict: Verdict, healthy: Mapping[tuple[str, str], frozenset[str]]) -> Verdict:
    """Return the verdict, healthy where the records lack its inputs and its last event says so."""
    is_healthy = verdict.code in healthy.get((verdict.attempt, verdict.loop), ())
    if verdict.severity != State.UNOBSERVED or not is_healthy:
        return verdict
    evidence = "judged while the program ran, by values in no record"
    return replace(verdict, severity=State.HEALTHY, evidence=evidence, observed=0, needed=0, lacking=())


def _with_live(collected: Collected, verdicts: Iterable[Verdict]) -> Iterable[Verdict]:
    """Return the verdicts, with those of the live events where they are graver: records do not show all values.

    They do not where the rules of the report are other ones: the events are of the limits that were in force live.
    """
    worst: dict[tuple[str, str, str], Verdict] = {}
    for verdict in verdicts:
        of_rule = (verdict.attempt, verdict.code, verdict.loop)
        worst[of_rule] = max(worst.get(of_rule, verdict), verdict, key=_by_severity)
    for key, live in told.found(collected).items():
        known = worst.get(key)
        is_graver = known is None or live.severity > known.severity
        if is_graver and _has_limits_of(rules(collected)[0], live) and not _is_overruled(collected, live, known):
            # What it has cost is known from records only.
            worst[key] = replace(live, cost=known.cost) if known is not None else live
    return worst.values()


def _is_overruled(collected: Collected, live: Verdict, known: Verdict | None) -> bool:
    """Return whether samples that had no score live have one now: the rows have the later scores joined to them.

    A share that the program gives itself is not that of the rows.
    """
    if live.code != Code.UNSCORED or known is None or known.severity == State.UNOBSERVED:
        return False
    return collected.tables.value(_IS_GIVEN, metrics.RL_TRAINER_METRIC.name, live.metric) is None


def _has_limits_of(rules: Rules, live: Verdict) -> bool:
    """Return whether the rule is on, with its usual limits or with the threshold that was passed."""
    limits = rules.limits.get(live.code)
    if limits is None:
        return False
    usual = all(limits[name] == limit.value for name, limit in RULES[live.code].limits.items())
    return usual or live.threshold in limits.values()


def _by_severity(verdict: Verdict) -> tuple[State, bool, int]:
    return verdict.severity, not verdict.lacking, verdict.observed
