"""Delays of known rank and time are found in time, and healthy jobs raise no alarm.

`make test-stragglers` runs the nightly set and writes benchmarks/results/stragglers.json.
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import cases
import launches
import pytest

if TYPE_CHECKING:
    from launches import Outcome

RESULTS = "OTEL_RL_STRAGGLERS_RESULTS"
F1 = 0.95
#: Of six delays one may be missed: on a loaded machine some of fifty are (docs/stragglers.md).
F1_OF_SIX = 0.9


@pytest.mark.quick
def test_five_of_six_delays_are_found_and_three_healthy_jobs_raise_no_alarm(tmp_path: Path) -> None:
    outcomes = _run(cases.quick(), tmp_path)

    _assert_good(outcomes, F1_OF_SIX)


@pytest.mark.slow
@pytest.mark.full_size
def test_fifty_delays_are_found_and_25_healthy_jobs_raise_no_alarm(tmp_path: Path) -> None:
    outcomes = _run(cases.nightly(), tmp_path)

    if RESULTS in os.environ:
        Path(os.environ[RESULTS]).write_text(json.dumps(_results(outcomes), indent=2) + "\n")
    _assert_good(outcomes, F1)


def _run(jobs: list[cases.Launch], folder: Path) -> list[Outcome]:
    outcomes = []
    for number, job in enumerate(jobs, 1):
        outcome = launches.run(job, folder / str(number))
        found = f"{outcome.found} of {len(outcome.rows)}"
        print(f"{number}/{len(jobs)} {job.name}: {found} found, {len(outcome.false_alarms)} false alarms")
        outcomes.append(outcome)
    return outcomes


def f1(outcomes: list[Outcome]) -> float:
    """Harmonic mean of the share of alarms that were right and the share of delays that were found."""
    injected = sum(len(outcome.rows) for outcome in outcomes)
    found = sum(outcome.found for outcome in outcomes)
    false = sum(len(outcome.false_alarms) for outcome in outcomes)
    return 2 * found / (injected + found + false)


def _assert_good(outcomes: list[Outcome], least: float) -> None:
    assert not [alarm for outcome in outcomes for alarm in outcome.false_alarms]
    missed = [row for outcome in outcomes for row in outcome.rows if not row["found"]]
    assert f1(outcomes) >= least, missed


def _errors(rows: list[dict[str, Any]]) -> dict[str, float]:
    """How far the stated cost was from the delay, as shares of the delayed step."""
    errors = [
        abs(row["lost_seconds"] - row["injected_seconds"]) / (cases.LENGTH + row["injected_seconds"])
        for row in rows
        if row["found"]
    ]
    return {"cost_error_median": round(median(errors), 4), "cost_error_most": round(max(errors), 4)}


def _results(outcomes: list[Outcome]) -> dict[str, Any]:
    rows = [row for outcome in outcomes for row in outcome.rows]
    return {
        "command": "make test-stragglers",
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "f1": round(f1(outcomes), 4),
        "injected": len(rows),
        "found": sum(row["found"] for row in rows),
        "phase_right": sum(row["phase_is_right"] for row in rows),
        "healthy_jobs": sum(not outcome.rows for outcome in outcomes),
        "false_alarms": sum(len(outcome.false_alarms) for outcome in outcomes),
        "slowest_seconds_after_first_step": max(row["seconds_after_first_step"] or 0 for row in rows),
        **_errors(rows),
        "rows": rows,
    }
