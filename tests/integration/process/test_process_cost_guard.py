"""The cost guard in a real process: with a limit that nothing can meet it climbs its ladder, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from process_support import plain

if TYPE_CHECKING:
    from process_support import Programs

#: The length of a window is the only thing that is not real: the test does not wait for half a minute.
PROGRAM = """
import logging, otel_rl
from otel_rl.training import cost_guard
cost_guard.WINDOW_SECONDS = 0.0
for number in range(1, 60):
    logging.getLogger("mine").info("step %d", number)
    logging.getLogger("mine").warning("step %d", number)
    with otel_rl.step(number), otel_rl.phase("train"):
        sum(range(20_000))
"""
LOGGED = {"OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED": "true"}
#: A rung is taken after two windows of 10 steps above the limit.
RUNG = 2 * 10
FIRST = 5 + RUNG


@pytest.fixture
def program(programs: Programs):
    return lambda **environ: programs.instrumented(
        PROGRAM.replace("import logging, otel_rl", "import logging, otel_rl; logging.getLogger('mine').setLevel(10)"),
        **LOGGED,
        **environ,
    )


def test_what_is_left_out_is_said_and_recorded_and_steps_phases_and_warnings_stay(program, programs: Programs) -> None:
    done = program(OTEL_RL_COST_LIMIT="0.000001")

    assert done.code == 0
    lines = [line for line in done.err.splitlines() if "less is recorded" in line]
    assert [line.split(" on less")[0] for line in lines] == [
        f"otel-rl: from step {FIRST} ".strip(),
        f"otel-rl: from step {FIRST + RUNG} ".strip(),
    ]
    assert "below WARNING (although OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED is set)" in lines[1]
    assert "cost_guard is degraded (otel-rl took" in done.err.splitlines()[-1]
    [manifest] = programs.store.manifests()
    assert manifest["instrumentors"]["cost_guard"]["state"] == "degraded"
    records = [
        record
        for line in programs.store._lines("logs")
        for resource in line["resourceLogs"]
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
    ]
    reduced = [plain(record["attributes"]) for record in records if record.get("eventName") == "rl.telemetry.reduced"]
    assert [one["rl.telemetry.reduction"] for one in reduced] == ["metric_interval", "program_log"]
    # INFO up to the step at which the second rung was taken, WARNING from all.
    levels = [record["severityText"] for record in records if record.get("severityText") in ("INFO", "WARN", "WARNING")]
    names = programs.store.span_names()
    assert (names.count("rl.rank.step"), names.count("rl.train")) == (59, 59)
    assert sum(level.startswith("WARN") for level in levels) == 59
    said = [record for record in records if str(record.get("body", {}).get("stringValue", "")).startswith("step ")]
    assert len(said) == 59 + FIRST + RUNG


def test_off_leaves_out_nothing_and_the_cost_is_measured(program, programs: Programs) -> None:
    done = program(OTEL_RL_COST_LIMIT="off")

    assert "less is recorded" not in done.err
    spent = {
        plain(point["attributes"])["rl.telemetry.thread"]: point["asDouble"]
        for point in programs.store.points("rl.telemetry.cpu.time")
    }
    assert set(spent) == {"program", "own"}
    assert all(seconds > 0 for seconds in spent.values())
    steps = [plain(span["attributes"]) for span in programs.store.spans() if span["name"] == "rl.rank.step"]
    assert all(step["rl.telemetry.cpu_time"] >= 0 and step["rl.loop.cpu_time"] > 0 for step in steps)
