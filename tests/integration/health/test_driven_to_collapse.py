"""A real TRL run whose learning rate ruins the policy: what is recorded while it runs, and what the report says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conformance.live_check import check

from otel_rl.health import rule_table
from otel_rl.health.verdict import State
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import load
from otel_rl.report.subjects.health import replay
from otel_rl.semconv.attributes import RlHealthCodeValues as Code
from otel_rl.store.reader import Log, Point, Reader, find_run

PROGRAM = Path(__file__).with_name("collapsing_program.py")
EXAMPLES = Path(__file__).parents[3] / "examples"
STEPS = 32


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    directory = tmp_path_factory.mktemp("collapse")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(EXAMPLES), "OTEL_RL_DATA_DIR": str(directory / "data")}
    environment |= {"OTEL_RL_RAISE_INTERNAL_ERRORS": "1"}
    command = [Path(sys.executable).parent / "opentelemetry-instrument", sys.executable, PROGRAM, str(STEPS), directory]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, env=environment, cwd=directory, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return find_run(directory / "data", None)


@pytest.fixture(scope="module")
def records(source):
    return list(Reader(source).records())


def events(records, name):
    return [one.attributes for one in records if isinstance(one, Log) and one.event == name]


def test_the_events_name_what_is_wrong_since_when_and_by_what_evidence(records):
    last = {one["rl.health.code"]: one for one in events(records, "rl.health.changed")}

    for code, step, key in (
        (Code.LEARNING_RATE, 3, "learning_rate"),
        (Code.P3_KL_EXPLOSION, 6, "kl"),
        (Code.P4_ENTROPY_COLLAPSE, 15, "entropy"),
    ):
        assert last[code]["rl.health.state"] == "critical"
        assert abs(last[code]["rl.health.onset_iteration"] - step) <= 3
        assert last[code]["rl.health.metric"] == key
        assert key in last[code]["rl.health.evidence"]
        assert last[code]["rl.health.next"]


def test_the_gauge_has_a_state_for_each_rule(records):
    states = {
        one.attributes["rl.health.code"]: one.value
        for one in records
        if isinstance(one, Point) and one.metric == "rl.health"
    }

    assert len(states) == len(rule_table.RULES)
    assert states[Code.P3_KL_EXPLOSION] == 2
    assert states[Code.P6_VALIDATION_COLLAPSE] == -1
    assert states[Code.NON_FINITE] == 0


def test_the_final_states_are_recorded_once(records):
    [final] = events(records, "rl.health.final")

    assert {Code.LEARNING_RATE, Code.P3_KL_EXPLOSION} <= set(final["rl.health.critical"])
    assert Code.STALENESS in final["rl.health.unobserved"]


def test_everything_recorded_is_in_the_registry(source):
    assert check(source.path) == []


def test_the_report_comes_to_the_verdicts_of_the_running_program(source, records):
    live = {one["rl.health.code"]: one for one in events(records, "rl.health.changed")}
    found = {one.code: one for one in replay.verdicts(Collected(Reader(source), load()).read(lambda _: None))}

    assert {code for code, one in found.items() if one.is_finding} == set(live)
    for code, one in live.items():
        assert found[code].onset == one["rl.health.onset_iteration"]
        assert found[code].severity.word == one["rl.health.state"]
    assert found[Code.P3_KL_EXPLOSION].severity == State.CRITICAL
