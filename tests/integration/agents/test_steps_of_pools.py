"""A rollout that begins in the worker of a pool belongs to the step in which its call was submitted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from steps_of_pools import STEPS
from support.own_command import otel_rl

from otel_rl.semconv import attributes, events
from otel_rl.store.reader import Reader
from otel_rl.store.reader.locate import find_run

PROGRAM = Path(__file__).with_name("steps_of_pools.py")
LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")
#: Rollouts of each step by the first part of their ids.
KINDS = {
    "executor": 6,
    "pool": 9,
    "joblib": 6,
    "nested": 1,
    "thread of a worker": 1,
    "inside a rollout": 1,
    "outer": 1,
    "evaluation": 8,
    "after an evaluation": 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The run of the program."""
    folder = tmp_path_factory.mktemp("run")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    own = {"OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store", "OTEL_RL_CHILDREN": "all"}
    subprocess.run([LAUNCHER, sys.executable, PROGRAM], cwd=folder, env={**kept, **own}, timeout=300, check=True)
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    """Lines of ``otel-rl trajectories``, with the parts of the id."""
    printed = otel_rl(folder, "trajectories", "store").stdout
    return [(row["rl.rollout.id"].split(", "), row) for row in map(json.loads, printed.splitlines())]


@pytest.mark.parametrize("kind", KINDS)
def test_it_belongs_to_the_step_in_which_its_call_was_submitted(rows, kind):
    of_kind = [(name, row["step"]) for name, row in rows if name[0] == kind]
    assert len(of_kind) == KINDS[kind] * len(STEPS)
    assert [(name, step) for name, step in of_kind if str(step) != _step_of(name)] == []


def _step_of(name):
    """The step that an id says: the first number in it, before that of the call."""
    return next(part for part in name if part.isdecimal())


def test_it_belongs_to_no_step_where_its_call_was_submitted_in_none(rows):
    beside = [row["step"] for name, row in rows if "None" in name]
    assert beside == [None] * 8


def test_it_is_one_of_an_evaluation_where_its_call_was_submitted_in_one(rows):
    evaluated = {name[0] for name, row in rows if row.get(attributes.RL_ROLLOUT_EVALUATION)}
    trained = {name[0] for name, row in rows if not row.get(attributes.RL_ROLLOUT_EVALUATION)}
    assert evaluated == {"evaluation"}
    assert "evaluation" not in trained


def test_its_record_names_the_loop_the_step_and_the_process_of_that(folder):
    reader = Reader(find_run(folder / "store"))
    logs = list(reader.events(events.RL_TRAJECTORIES.name))
    trainer = next(log.process for log in reader.events(events.RL_HEALTH_FINAL.name))
    called = [log for log in logs if log.attributes.get(attributes.RL_TRAJECTORIES_CALLER_PID) is not None]
    assert {log.attributes[attributes.RL_LOOP_NAME] for log in called} == {"main"}
    assert {log.attributes[attributes.RL_TRAJECTORIES_STEP] for log in called} == set(STEPS)
    pids = {log.attributes[attributes.RL_TRAJECTORIES_CALLER_PID] for log in called}
    assert pids == {trainer.identity(attributes.PROCESS_PID)}
    assert trainer.key not in {log.process.key for log in called}
