"""Real programs with more rollouts in a step than a process sends the spans of."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from process_support import plain

from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import load
from otel_rl.report.subjects.calls import lines, rollouts
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from process_support import Programs

STEP = """
import os, signal, otel_rl
from concurrent.futures import ThreadPoolExecutor

def collect(number):
    try:
        with otel_rl.rollout(f"r-{number}"), otel_rl.tool("search"):
            if number % 50 == 49:
                raise ValueError
    except ValueError:
        pass

with otel_rl.step(1), ThreadPoolExecutor(8) as pool:
    list(pool.map(collect, range(300)))
"""
KILLED = """
import os, signal, time, otel_rl
with otel_rl.step(1):
    for number in range(6):
        with otel_rl.rollout(f"r-{number}"), otel_rl.tool("search"):
            pass
    with otel_rl.rollout("open"):
        with otel_rl.tool("search"):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
"""
MARK = "rl.sampling.beyond_limit"
OUTSIDE_OF_STEPS = """
import otel_rl
for number in range(60):
    with otel_rl.rollout(f"r-{number}"), otel_rl.tool("search"):
        pass
"""


def test_a_step_sends_the_first_the_failed_and_the_slowest_and_rows_of_all(programs: Programs) -> None:
    done = programs.instrumented(STEP, OTEL_RL_ROLLOUT_SPANS="10")
    assert (done.code, done.out) == (0, "")
    # No loss, by design.
    assert "dropped" not in done.err

    rows = [record["body"]["kvlistValue"]["values"] for record in programs.store.events("rl.trajectories")]
    columns = {column["key"]: column["value"]["arrayValue"]["values"] for row in rows for column in row}
    assert len(columns["rl.rollout.id"]) == 300
    spans = programs.store.spans()
    roots = {span["traceId"]: span for span in spans if span["name"] == "rl.rollout"}
    failed = {plain(span["attributes"])["rl.rollout.id"] for span in roots.values() if span["status"].get("code") == 2}
    assert failed == {f"r-{number}" for number in range(49, 300, 50)}
    # Of the six that failed one may be among the first on a slow machine.
    assert 10 + 8 + 5 <= len(roots) <= 10 + 8 + 6
    # Whole traces, and none without its root.
    tools = [span for span in spans if span["name"] == "execute_tool search"]
    assert sorted(span["traceId"] for span in tools) == sorted(roots)
    assert {span["parentSpanId"] for span in tools} == {span["spanId"] for span in roots.values()}
    left_out = [drop for each in programs.store.manifests() for drop in each["dropped"]["traces"].items()]
    assert left_out == [("rollout_spans", 2 * (300 - len(roots)))]


def test_spans_that_are_held_when_sigterm_ends_a_step_are_delivered(programs: Programs) -> None:
    done = programs.instrumented(KILLED, OTEL_RL_ROLLOUT_SPANS="1")
    assert done.code == -signal.SIGTERM
    names = programs.store.span_names()
    assert names.count("execute_tool search") == 7
    assert names.count("rl.rollout") >= 6


def test_the_report_tells_of_all_rollouts_and_compares_those_that_were_not_chosen(programs: Programs) -> None:
    done = programs.instrumented(OUTSIDE_OF_STEPS, OTEL_RL_ROLLOUT_SPANS="10")
    assert (done.code, done.out) == (0, "")
    spans = [(span["name"], span["traceId"], plain(span["attributes"])) for span in programs.store.spans()]
    marked = {trace for name, trace, values in spans if name == "rl.rollout" and MARK in values}
    roots = {trace for name, trace, _ in spans if name == "rl.rollout"}
    assert len(marked) >= 8
    assert {trace for name, trace, values in spans if name == "execute_tool search" and MARK in values} == marked

    collected = Collected(Reader(find_run(programs.directory / "otel-rl")), load()).read(lambda _: None)
    assert rollouts.of_run(collected).statistics.number == 60
    assert rollouts.of_run(collected).fair.cell.count == len(roots - marked)
    [tool] = lines.of_calls(collected, "seconds").values()
    assert tool.count == len(roots - marked)
