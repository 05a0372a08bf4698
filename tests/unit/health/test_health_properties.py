"""Whatever a trainer logs: the rules never raise, and say the same of the same run."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as some

from otel_rl.health.monitor import Monitor
from otel_rl.health.rule_table import INPUTS
from otel_rl.health.user_rules import defaults
from otel_rl.health.verdict import State

KEYS = sorted({key.replace("*", "x") for item in INPUTS.values() for key in item.keys[:2]})
VALUES = some.one_of(
    some.floats(),
    some.sampled_from([0.0, 1.0, -1.0, 1e-12, 1e300, math.nan, math.inf, 7, 10**400, "nan", None, True, [1.0]]),
)
CALLS = some.lists(
    some.one_of(
        some.tuples(
            some.just("log"),
            some.integers(-2, 60),
            some.dictionaries(some.sampled_from(KEYS), VALUES, max_size=8),
            some.one_of(some.none(), some.integers(-3, 70)),
        ),
        some.tuples(
            some.just("step"),
            some.integers(-2, 60),
            some.one_of(some.none(), some.floats()),
            some.dictionaries(some.sampled_from(["rl.sample", "rl.train"]), some.floats(), max_size=2),
        ),
    ),
    max_size=80,
)
CURVES = some.dictionaries(
    some.sampled_from(KEYS), some.lists(some.floats(allow_nan=True, width=32), min_size=1, max_size=60), max_size=8
)


def feed(calls):
    monitor = Monitor(defaults())
    changes = []
    for kind, step, values, more in calls:
        changes += monitor.log(step, values, more) if kind == "log" else monitor.step(step, values, more)
    changes += monitor.judge()
    return monitor, changes


@given(CALLS)
@settings(max_examples=300, deadline=None)
def test_nothing_that_is_logged_raises_and_the_same_run_gives_the_same_verdicts(calls):
    first, changes = feed(calls)
    second, again = feed(calls)

    assert repr(first.verdicts()) == repr(second.verdicts())
    assert [change[:4] for change in changes] == [change[:4] for change in again]


@given(CURVES)
@settings(max_examples=200, deadline=None)
def test_every_verdict_is_whole(curves):
    monitor = Monitor(defaults())
    length = max(map(len, curves.values()), default=0)
    for step in range(1, length + 1):
        values = {key: curve[step - 1] for key, curve in curves.items() if len(curve) >= step}
        monitor.log(step, values)
        monitor.step(step, 1.0)

    verdicts = monitor.verdicts()
    assert len(verdicts) == len(monitor.machines)
    for one in verdicts:
        assert one.evidence
        assert 0 <= one.cost <= 1
        if one.is_finding:
            assert 1 <= one.onset <= length
            assert one.next_steps
            assert one.metric
        else:
            assert one.onset is None
            assert one.severity in (State.HEALTHY, State.UNOBSERVED)


@given(some.lists(some.sampled_from([0.01, 0.8, 2.0, 9.0]), max_size=60))
@settings(max_examples=200, deadline=None)
def test_a_change_begins_with_the_state_that_the_one_before_it_ended_with(values):
    monitor = Monitor(defaults())
    state = {}
    for step, value in enumerate(values, 1):
        for change in [*monitor.log(step, {"kl": value}), *monitor.step(step, 1.0)]:
            assert change.before == state.get(change.code, State.UNOBSERVED)
            state[change.code] = change.state
    assert {code: found for code, found in monitor.states().items() if code in state} == state
