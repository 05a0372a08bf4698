"""What otel-rl costs is measured in a real process, and named in the last line where it is high."""

from __future__ import annotations

from typing import TYPE_CHECKING

from process_support import plain

if TYPE_CHECKING:
    from process_support import Programs

PROGRAM = """
import otel_rl
for number in range(1, 60):
    with otel_rl.step(number), otel_rl.phase("train"):
        sum(range(20_000))
"""


def test_the_cost_is_measured_and_a_short_program_says_nothing_of_it(programs: Programs) -> None:
    done = programs.instrumented(PROGRAM)

    assert "otel-rl itself took" not in done.err
    spent = {
        plain(point["attributes"])["rl.telemetry.thread"]: point["asDouble"]
        for point in programs.store.points("rl.telemetry.cpu.time")
    }
    assert set(spent) == {"program", "own"}
    assert all(seconds > 0 for seconds in spent.values())
    steps = [plain(span["attributes"]) for span in programs.store.spans() if span["name"] == "rl.rank.step"]
    assert all(step["rl.telemetry.cpu_time"] >= 0 and step["rl.loop.cpu_time"] > 0 for step in steps)


def test_a_high_cost_is_named_once_in_the_last_line_and_nothing_is_left_out(programs: Programs) -> None:
    # The thresholds are the only thing that is not real: the test does not wait for half a minute.
    lowered = "from otel_rl.training import own_cost\nown_cost.MINIMUM_SECONDS = own_cost.WARNING_SHARE = 0.0\n"
    done = programs.instrumented(lowered + PROGRAM)

    assert done.code == 0
    assert done.err.count("otel-rl itself took") == 1
    assert "of the time from step to step" in done.err.splitlines()[-1]
    names = programs.store.span_names()
    assert (names.count("rl.rank.step"), names.count("rl.train")) == (59, 59)
