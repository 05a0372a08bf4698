"""Which call of a trajectory repeats the failed one before it, and how large arguments and results are."""

from __future__ import annotations

import json

import pytest

import otel_rl
from otel_rl.agents.runs import AgentRun, agent
from otel_rl.core import guard
from otel_rl.telemetry import Scope
from otel_rl.telemetry.open_trajectory import OpenTrajectory
from otel_rl.tools import calls
from otel_rl.tools.attempts import Attempt
from otel_rl.tools.sizes import plain_size

RETRY, RETRIES = "rl.tool.retry", "rl.rollout.tool_retries"
SIZES = ("rl.tool.arguments.size", "rl.tool.result.size")


class Unready(Exception):  # noqa: N818 - a name for the tests
    """What a tool raises that is to be called once more."""


def _retries(recorded, name="fetch"):
    spans = sorted((span for span in recorded.spans if span.name.endswith(name)), key=lambda span: span.start_time)
    return [span.attributes.get(RETRY) for span in spans]


def _fetch(times):
    left = [times]

    @otel_rl.tool("fetch")
    def fetch(key):
        if left[0]:
            left[0] -= 1
            raise Unready
        return key

    return fetch


def test_a_loop_of_tenacity_around_a_tool_numbers_its_repetitions(recorded):
    tenacity = pytest.importorskip("tenacity")
    steady = tenacity.retry(stop=tenacity.stop_after_attempt(4))(_fetch(2))
    with otel_rl.rollout():
        assert steady("a") == "a"
        assert steady("a") == "a"
    assert _retries(recorded) == [None, 1, 2, None]
    assert recorded.span("rl.rollout").attributes[RETRIES] == 2


def test_other_arguments_other_tools_and_other_trajectories_are_no_repetition(recorded):
    fetch = _fetch(5)
    for _ in range(2):
        with otel_rl.rollout():
            for key in ("a", "b"):
                with pytest.raises(Unready):
                    fetch(key)
            otel_rl.tool("other fetch")(lambda key: key)("b")
    with pytest.raises(Unready):
        fetch("b")
    assert not any(_retries(recorded))
    assert not [span for span in recorded.spans if RETRIES in span.attributes]


def test_a_failure_between_two_calls_is_the_one_that_is_remembered(recorded):
    fetch = _fetch(3)
    with otel_rl.rollout():
        for key in ("a", "b", "a"):
            with pytest.raises(Unready):
                fetch(key)
    assert not any(_retries(recorded))


def test_a_failure_that_is_only_told_is_repeated_too(recorded):
    with otel_rl.rollout():
        for _ in range(2):
            with otel_rl.tool("fetch", arguments={"key": [1, "a"]}) as call:
                call.fail("timeout")
    assert _retries(recorded) == [None, 1]


@pytest.mark.parametrize("arguments", [None, {"value": object()}, {"value": "x" * 20_000}, {"value": 10**5000}])
def test_arguments_that_cannot_be_compared_cheaply_are_no_repetition(recorded, arguments):
    with otel_rl.rollout():
        for _ in range(2):
            with otel_rl.tool("fetch", arguments=arguments) as call:
                call.fail("timeout")
    assert _retries(recorded) == [None, None]


def _deep(levels):
    found = []
    for _ in range(levels):
        found = [found]
    return found


def test_arguments_of_any_depth_cost_the_tool_nothing(recorded):
    with otel_rl.rollout():
        for _ in range(2):
            with otel_rl.tool("fetch", arguments={"value": _deep(990)}) as call, otel_rl.tool("inside"):
                call.fail("timeout")
    outer, inner = ([span for span in recorded.spans if span.name.endswith(name)] for name in ("fetch", "inside"))
    assert [span.parent.span_id for span in inner] == [span.context.span_id for span in outer]
    # Whether Python writes so many levels out depends on its version (before 3.12 not).
    assert _retries(recorded) in ([None, None], [None, 1])
    assert all(span.attributes[SIZES[0]] > 1900 for span in outer)
    assert recorded.span("rl.rollout").attributes["rl.rollout.tool_calls"] == 4


def test_what_a_tool_calls_is_inside_of_it_though_it_could_not_be_counted(recorded, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    monkeypatch.setattr(calls, "plain_size", lambda value: 1 / 0)
    with otel_rl.rollout(), otel_rl.tool("fetch", arguments={"key": 1}), otel_rl.tool("inside"):
        pass
    outer, inner = recorded.span("execute_tool fetch"), recorded.span("execute_tool inside")
    assert inner.parent.span_id == outer.context.span_id
    assert guard.error_counts()["tools.start"]
    guard.reset_counts()


def _repeated(recorded):
    values = recorded.span("rl.rollout").attributes
    return values.get("rl.rollout.repeated_tool"), values.get("rl.rollout.repeated_calls")


@pytest.mark.parametrize(
    ("calls_made", "repeated"),
    [
        ("aaaa", ("look", 4)),
        ("abaab", ("look", 2)),
        ("abab", (None, None)),
    ],
)
def test_the_longest_row_of_calls_with_the_same_arguments_and_result_is_on_the_rollout(recorded, calls_made, repeated):
    look = otel_rl.tool("look")(lambda key: f"Error: no {key}")
    with otel_rl.rollout():
        for key in calls_made:
            look(key)
    assert _repeated(recorded) == repeated


def test_calls_that_answer_otherwise_are_no_repetition(recorded):
    answers = iter("abcd")
    look = otel_rl.tool("look")(lambda key: next(answers))
    with otel_rl.rollout():
        for _ in range(4):
            look("key")
    assert _repeated(recorded) == (None, None)


def test_a_trajectory_remembers_one_failed_call():
    trajectory = OpenTrajectory()
    for number in range(1_000):
        Attempt(trajectory, "fetch", {"key": number}).ended(failed=True)
    assert len(trajectory.tool_row.failed) == 3
    assert all(type(part) in (str, int) for part in trajectory.tool_row.failed)


def test_agents_of_one_rollout_repeat_only_their_own_calls(recorded):
    scope = Scope("test")

    def call(key):
        with otel_rl.tool("look", arguments={"key": key}) as tool:
            tool.fail("timeout")

    with otel_rl.rollout():
        for name in "abcd":
            run = AgentRun(scope, agent(name))
            call("same")
            run.end()
        runs = []
        for name in "ef":
            runs.append(AgentRun(scope, agent(name)))
            call("again")
            call("again")
            runs[-1].leave()
        for run in runs:
            run.end()
    assert _repeated(recorded) == ("look", 2)
    assert recorded.span("rl.rollout").attributes["rl.rollout.tool_retries"] == 2


def test_a_rollout_inside_of_an_agent_has_calls_of_its_own(recorded):
    look = otel_rl.tool("look")(lambda key: key)
    run = AgentRun(Scope("test"), agent("parent"))
    for _ in range(3):
        with otel_rl.rollout():
            look("same")
    run.end()
    rollouts = [span.attributes for span in recorded.spans if span.name == "rl.rollout"]
    assert [values.get("rl.rollout.repeated_calls") for values in rollouts] == [None, None, None]


@pytest.mark.parametrize(
    "value", ["text", "", 12, 1.5, True, None, [], {}, [1, [2, "x"]], {"a": {"b": [None, False]}, "c": "d"}]
)
def test_the_size_of_a_plain_value_is_the_length_of_its_json(value):
    assert plain_size(value) == len(json.dumps(value, separators=(",", ":")))


def test_sizes_of_arguments_and_results_are_on_the_span(recorded):
    otel_rl.tool("fetch")(lambda key, n: key * n)("ab", 3)
    values = recorded.span("execute_tool fetch").attributes
    assert [values[key] for key in SIZES] == [len('{"key":"ab","n":3}'), len('"ababab"')]


def test_bytes_count_with_their_length_and_are_not_copied(recorded):
    otel_rl.tool("fetch")(lambda: bytes(10_000_000))()
    assert recorded.span("execute_tool fetch").attributes[SIZES[1]] == 10_000_002


class Lazy:
    """What is read later: looking at it would read it."""

    def __getattribute__(self, name):
        raise AssertionError(name)

    def __len__(self):
        raise AssertionError


class LazyList(list):
    """The same for a subclass of what is plain."""

    __len__ = __iter__ = __repr__ = __getattribute__ = Lazy.__len__


@pytest.mark.parametrize("make", [Lazy, LazyList, lambda: [Lazy()], lambda: {"a": LazyList()}, lambda: iter([1])])
def test_what_is_not_plain_is_neither_looked_at_nor_measured(recorded, make):
    value = make()
    with otel_rl.rollout():
        assert otel_rl.tool("fetch")(lambda given: given)(value) is value
    assert not set(SIZES) & recorded.span("execute_tool fetch").attributes.keys()


def test_what_has_many_values_or_holds_itself_has_no_size():
    endless = []
    endless.append(endless)
    assert plain_size(endless) is None
    assert plain_size(list(range(2_000))) is None
    assert plain_size({"rows": [[number] for number in range(600)]}) is None
    assert plain_size(list(range(900))) is not None
