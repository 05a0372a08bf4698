"""Real programs with a loop of their own that tell nothing but rewards: what is said live and in the report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import own_loop_program
import pytest
from conformance.live_check import check
from own_loop_program import GROUPS, ONSET, SAMPLES, STEPS
from support.reward_readers import calls_of

from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import load, overview
from otel_rl.report.subjects.health import replay
from otel_rl.semconv.attributes import RlHealthCodeValues as Code
from otel_rl.store.reader import Log, Reader, find_run

PROGRAM = Path(own_loop_program.__file__)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Runs the program once per failure; where its records are."""
    sources = {}

    def run(*failures):
        if failures in sources:
            return sources[failures]
        directory = tmp_path_factory.mktemp("_".join(failures))
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
        environment |= {"OTEL_RL_DATA_DIR": str(directory / "data"), "OTEL_RL_RAISE_INTERNAL_ERRORS": "1"}
        command = [Path(sys.executable).parent / "opentelemetry-instrument", sys.executable, PROGRAM, *failures]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, env=environment, cwd=directory, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        sources[failures] = find_run(directory / "data", None)
        return sources[failures]

    return run


def events(source, name):
    return [one for one in Reader(source).records() if isinstance(one, Log) and one.event == name]


def live(source):
    """Code -> the last event of a rule."""
    return {one.attributes["rl.health.code"]: one.attributes for one in events(source, "rl.health.changed")}


def report(source):
    """Code -> what the report says, of the rules that found something."""
    collected = Collected(Reader(source), load()).read(lambda _: None)
    return {one.code: one for one in replay.verdicts(collected) if one.is_finding}


def test_the_means_of_each_step_cover_all_its_samples(finished):
    source = finished("healthy")
    calls = calls_of(*(log for log in Reader(source).records() if isinstance(log, Log)))

    assert [call.step for call in calls] == list(range(1, STEPS + 1))
    expected = "frac_reward_zero_std reward reward_std rewards/correct/mean rewards/polite/mean unscored_ratio"
    for call in calls:
        assert " ".join(sorted(call.values)) == expected
        right = call.values["rewards/correct/mean"] * GROUPS * SAMPLES
        assert right == pytest.approx(round(right))
    assert events(source, "rl.step") == []


@pytest.mark.parametrize(
    ("failure", "code", "state", "metric"),
    [
        ("collapsed", Code.NO_SIGNAL, "critical", "frac_reward_zero_std"),
        ("hacked", Code.P5_REWARD_HACKING, "warning", "rewards/correct/mean"),
        ("fallen", Code.REWARD_COLLAPSE, "critical", "reward"),
        ("unscored", Code.UNSCORED, "critical", "unscored_ratio"),
    ],
)
def test_a_failure_is_named_with_its_onset_live_and_in_the_report(finished, failure, code, state, metric):
    source = finished(failure)

    told = live(source)[code]
    assert (told["rl.health.state"], told["rl.health.metric"]) == (state, metric)
    assert abs(told["rl.health.onset_iteration"] - ONSET) <= 3
    found = report(source)[code]
    assert (found.severity.word, found.metric) == (state, metric)
    assert found.onset == told["rl.health.onset_iteration"]
    assert found.until is None


@pytest.mark.parametrize(("delay", "told"), [(1, []), (12, ["critical", "unobserved"])])
def test_scores_that_come_late_are_no_missing_ones(finished, delay, told):
    source = finished("late", str(delay))

    changed = [one.attributes for one in events(source, "rl.health.changed")]
    assert [one["rl.health.state"] for one in changed if one["rl.health.code"] == Code.UNSCORED] == told
    assert Code.UNSCORED not in report(source)


def test_a_reward_that_does_not_move_is_a_plateau_where_the_program_tells_that_the_policy_does_not_either(finished):
    source = finished("stuck")

    assert live(source)[Code.P1_PLATEAU]["rl.health.metric"] == "reward"
    assert report(source)[Code.P1_PLATEAU].onset == live(source)[Code.P1_PLATEAU]["rl.health.onset_iteration"]


def test_of_a_healthy_loop_nothing_is_said_and_what_was_checked_is(finished):
    source = finished("healthy")

    assert live(source) == {}
    assert report(source) == {}
    [final] = events(source, "rl.health.final")
    assert {Code.NO_SIGNAL, Code.P5_REWARD_HACKING, Code.REWARD_COLLAPSE, Code.UNSCORED} <= set(
        final.attributes["rl.health.healthy"]
    )
    assert Code.P1_PLATEAU in final.attributes["rl.health.unobserved"]


def test_everything_recorded_is_in_the_registry(finished):
    assert check(finished("collapsed").path) == []


def test_of_two_loops_with_the_same_step_numbers_the_failing_one_is_named(finished):
    source = finished("healthy", "collapsed")

    assert live(source)[Code.NO_SIGNAL]["rl.loop.name"] == "collapsed"
    assert abs(live(source)[Code.NO_SIGNAL]["rl.health.onset_iteration"] - ONSET) <= 3
    assert {(code, one.loop, one.onset) for code, one in report(source).items()} == {
        (code, "collapsed", one["rl.health.onset_iteration"]) for code, one in live(source).items()
    }
    found = {
        one.code: one.text for one in overview.examine(Collected(Reader(source), load()).read(lambda _: None)).findings
    }
    assert f"No signal since step {ONSET} (loop collapsed): " in found[Code.NO_SIGNAL]
