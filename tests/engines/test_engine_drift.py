"""Jobs whose real vLLM does not get the weights: the health rule `engine_drift` names them, live and in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_runs import HERE, VLLM, read
from health import runs
from health.cases import STEP, Case, Expected
from health.table import is_in_time

from otel_rl.semconv.attributes import RlHealthCodeValues as Rule

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("vllm")

STEPS = 26
ENVIRON = {**VLLM, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
#: The sync of a step brings the weights that the next step samples with.
EXPECTED = Expected(Rule.ENGINE_DRIFT, onset=STEP + 1, subject="logprob_difference")
HEALTHY, WARNING = 0, 1


def job(name, fault=None):
    plan = {"steps": STEPS, **({"change": {"step": STEP, "fault": fault}} if fault else {})}
    return Case(name, str(HERE / "drift_program.py"), plan, (EXPECTED,) if fault else (), environ=ENVIRON)


def states(folder: Path) -> set[int]:
    """All states of the rule that the gauge has had."""
    points = read(folder / "otel-rl").points["rl.health"]
    found = [point for point in points if point["attributes"]["rl.health.code"] == Rule.ENGINE_DRIFT]
    return {int(point.get("asInt", point.get("asDouble"))) for point in found}


@pytest.mark.parametrize("fault", ["skipped", "partial"])
def test_an_engine_that_does_not_get_the_weights_is_named_with_place_and_onset(fault, model, tmp_path):
    [row] = runs.run(job(f"weights do not reach the engine: {fault}", fault), tmp_path / "job", model)
    assert row["detected"], row
    assert row["place_is_right"], row
    assert is_in_time(row), row
    assert row["is_first"], row
    assert STEP < row["told_live_at_step"] <= STEPS, row
    assert max(states(tmp_path / "job")) >= WARNING


def test_the_same_job_with_all_of_its_syncs_raises_nothing(model, tmp_path):
    [row] = runs.run(job("policy gradient with an engine"), tmp_path / "job", model)
    assert not row["false_criticals"], row
    assert not row["false_warnings"], row
    assert max(states(tmp_path / "job")) == HEALTHY
