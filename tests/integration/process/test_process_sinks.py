"""A sink that hangs and one that raises harm neither the program nor the sink that works."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from process_support import SCRIPTS, plain

if TYPE_CHECKING:
    from process_support import Collector, Programs

PROGRAM = """
import json, sys, threading
import otel_rl.sinks

class Works:
    def run_started(self, run): self.got = [["run", run.run_id]]
    def step_ended(self, step): self.got.append(["step", step.iteration, step.reward, step.trace_id])
    def run_ended(self, run):
        self.got.append(["end", run.status, run.steps])
        with open("got.json", "w") as file: json.dump(self.got, file)
    def status(self): return otel_rl.sinks.SinkStatus("works")

class Raises(Works):
    def step_ended(self, step): raise ValueError("boom")
    def run_ended(self, run): sys.exit(7)

class Hangs(Works):
    def step_ended(self, step): threading.Event().wait()
    def run_ended(self, run): pass

for sink, name in ((Hangs(), "hangs"), (Raises(), "raises"), (Works(), "works")):
    otel_rl.sinks.add(sink, name)
traces = []
for number in range(1, 4):
    with otel_rl.step(number):
        traces.append(otel_rl.trace_id())
        with otel_rl.rollout(): otel_rl.reward("exact", number)
print(json.dumps(traces))
sys.exit(3)
"""
PROCESSOR = """
from opentelemetry import trace
import otel_rl

class Broken:
    def on_start(self, span, parent_context=None): raise ValueError("boom")
    def on_end(self, span): raise ValueError("boom")
    def _on_ending(self, span): pass
    def shutdown(self): pass
    def force_flush(self, timeout_millis=30000): return True

trace.get_tracer_provider().add_span_processor(Broken())
with otel_rl.step(1), otel_rl.span("mine"), trace.get_tracer("program").start_as_current_span("work"):
    print("in the span")
"""
CONFIGURATION = """
file_format: "1.1"
tracer_provider:
  processors:
    - batch:
        exporter: {{otlp_http: {{endpoint: "http://127.0.0.1:{port}/v1/traces"}}}}
"""
MESSAGE = "error of the span processor __main__.Broken of the program in on_start (ValueError: boom)"


def test_the_working_one_gets_all_and_the_two_that_failed_are_named(programs: Programs) -> None:
    # What hangs would keep the program for ever where the wait at the end was not bounded.
    done = programs.instrumented(PROGRAM, timeout=120)

    assert done.code == 3
    (line,) = done.out.splitlines()
    got = json.loads((programs.directory / "got.json").read_text())
    assert [item[0] for item in got] == ["run", "step", "step", "step", "end"]
    assert [item[1:] for item in got[1:4]] == [
        [number, float(number), trace] for number, trace in enumerate(json.loads(line), 1)
    ]
    assert got[4] == ["end", "completed", 3]
    *_, last = done.err.splitlines()
    assert "sink hangs is degraded (step_ended has not returned for " in last
    assert "sink raises is degraded (4 of its calls failed, the latest with SystemExit)" in last
    assert "sink works" not in last
    # Two steps and the end of the run waited for the one that hangs.
    assert "dropped (steps: 3 sink_ended)" in last
    by_reason = {
        plain(point["attributes"])["rl.telemetry.drop.reason"]: int(point["asInt"])
        for point in programs.store.points("rl.telemetry.dropped")
    }
    assert by_reason == {"sink_ended": 3}


def test_doctor_names_the_two_that_failed(programs: Programs) -> None:
    done = programs.run(SCRIPTS / "otel-rl", "doctor", "--json", "--", "python", programs.write("program.py", PROGRAM))

    problems = "\n".join(json.loads(done.out)["problems"])
    assert "sink hangs: step_ended has not returned for" in problems
    assert "sink raises: 4 of its calls failed, the latest with SystemExit" in problems


def test_a_span_processor_that_raises_costs_neither_spans_nor_the_program_an_error(programs: Programs) -> None:
    done = programs.instrumented(PROCESSOR)

    assert (done.code, done.out) == (0, "in the span\n")
    assert {"mine", "work"} <= set(programs.store.span_names())
    assert done.err.count(MESSAGE) == 1
    assert "span processor __main__.Broken is degraded" in done.err.splitlines()[-1]


def test_so_it_is_with_providers_of_a_configuration_file(programs: Programs, collector: Collector) -> None:
    pytest.importorskip("opentelemetry.configuration")
    file = programs.write("otel.yaml", CONFIGURATION.format(port=collector.port))
    done = programs.instrumented(PROCESSOR, OTEL_CONFIG_FILE=str(file))

    assert (done.code, done.out) == (0, "in the span\n")
    assert {"mine", "work"} <= set(collector.spans())
    assert done.err.count(MESSAGE) == 1
