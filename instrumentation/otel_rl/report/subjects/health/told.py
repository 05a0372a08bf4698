"""What the health rules have said while the program ran: of values that are in no record nothing else is known.

Only of samples without a score the rows know better, as later scores are in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.health.rule_table import RULES
from otel_rl.health.verdict import State, Verdict
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Log

_STATES = {state.word: state for state in State}


def found(collected: Collected) -> dict[tuple[str, str, str], Verdict]:
    """Return what the rules said last, by attempt, code and loop; the severity is the worst that they said."""
    verdicts: dict[tuple[str, str, str], Verdict] = {}
    for log in collected.tables.events(events.RL_HEALTH_CHANGED.name):
        get = log.attributes.get
        code, loop = str(get(names.RL_HEALTH_CODE)), str(get(names.RL_LOOP_NAME) or "")
        state = _STATES.get(str(get(names.RL_HEALTH_STATE)))
        if code in RULES and state is not None:
            key = words(log.process.attempt), code, loop
            verdicts[key] = _verdict(log, key, state, verdicts.get(key))
    return verdicts


def _verdict(log: Log, key: tuple[str, str, str], state: State, known: Verdict | None) -> Verdict:
    get = log.attributes.get
    attempt, code, loop = key
    before = _STATES.get(str(get(names.RL_HEALTH_PREVIOUS_STATE)), State.UNOBSERVED)
    return Verdict(
        code=code,
        title=RULES[code].title,
        severity=max(state, before, known.severity if known is not None else state),
        onset=int_or_none(get(names.RL_HEALTH_ONSET_ITERATION)),
        until=int_or_none(get(names.RL_LOOP_ITERATION)) if state < State.WARNING else None,
        evidence=str(get(names.RL_HEALTH_EVIDENCE) or ""),
        next_steps=RULES[code].next_steps,
        metric=str(get(names.RL_HEALTH_METRIC) or ""),
        value=float_or_none(get(names.RL_HEALTH_VALUE)),
        threshold=float_or_none(get(names.RL_HEALTH_THRESHOLD)),
        unit="",
        cost=0.0,
        attempt=attempt,
        loop=loop,
    )


def healthy(collected: Collected) -> dict[tuple[str, str], frozenset[str]]:
    """Return the rules that had found nothing at the end of the process, by attempt and loop."""
    codes: dict[tuple[str, str], frozenset[str]] = {}
    for log in collected.tables.events(events.RL_HEALTH_FINAL.name):
        of_process = log.attributes.get(names.RL_HEALTH_HEALTHY)
        key = words(log.process.attempt), str(log.attributes.get(names.RL_LOOP_NAME) or "")
        codes[key] = codes.get(key, frozenset()).union(of_process if isinstance(of_process, list) else ())
    return codes


def words(attempt: tuple[int, ...]) -> str:
    """Return an attempt as verdicts name it, ``""`` for the first one."""
    return ".".join(map(str, attempt)) if any(attempt) else ""
