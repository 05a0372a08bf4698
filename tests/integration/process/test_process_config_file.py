"""With ``OTEL_CONFIG_FILE`` everything but the file's own settings is as without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from process_support import Programs, closed_port

if TYPE_CHECKING:
    from process_support import Collector

pytest.importorskip("opentelemetry.configuration")

FILE = """
file_format: "1.1"
tracer_provider:
  processors:
    - {processor}:
        exporter: {{otlp_http: {{endpoint: "http://127.0.0.1:{port}/v1/traces"}}}}
meter_provider:
  readers:
    - periodic:
        exporter:
          otlp_http:
            endpoint: "http://127.0.0.1:{port}/v1/metrics"
            temporality_preference: {temporality}
logger_provider:
  processors:
    - {processor}:
        exporter: {{otlp_http: {{endpoint: "http://127.0.0.1:{port}/v1/logs"}}}}
"""


@pytest.fixture
def configured(programs: Programs, collector: Collector) -> Programs:
    """Programs whose file sends everything to ``collector``."""
    configure(programs, collector.port)
    return programs


def configure(programs: Programs, port: int, processor: str = "batch", temporality: str = "cumulative") -> None:
    programs.write("otel.yaml", FILE.format(port=port, processor=processor, temporality=temporality))
    programs.environ["OTEL_CONFIG_FILE"] = "otel.yaml"


def test_forked_child_does_not_end_its_parents_spans_again(configured: Programs, collector: Collector) -> None:
    configured.instrumented(
        "import os, sys, otel_rl\n"
        "with otel_rl.step(1):\n"
        "    child = os.fork()\n"
        "    if not child: sys.exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )

    assert sorted(collector.spans()) == ["rl.loop", "rl.rank.step", "rl.run"]


def test_what_is_recorded_before_the_run_id_is_known_has_it_in_all_signals(
    configured: Programs, collector: Collector
) -> None:
    done = configured.instrumented(
        "import otel_rl\n"
        "from opentelemetry import metrics\n"
        "from otel_rl.process import process_identity\n"
        "process_identity.begin_meeting()\n"
        "with otel_rl.tool('early'): metrics.get_meter('program').create_counter('made').add(1)\n"
        "otel_rl.event('early')\n"
        "process_identity.update(id='run-of-rank-0', rank=1)\n"
        "process_identity.end_meeting()\n"
        "with otel_rl.tool('late'): pass\n"
    )

    assert done.code == 0, done.err
    for signal, resources in collector.resources().items():
        assert {(one["rl.run.id"], one["rl.rank"]) for one in resources} == {("run-of-rank-0", 1)}, signal


def test_attributes_of_the_file_win_over_ours(configured: Programs, collector: Collector) -> None:
    file = configured.directory / "otel.yaml"
    file.write_text(file.read_text() + "resource: {attributes: [{name: rl.role, value: judge}]}\n")
    configured.instrumented(
        "import otel_rl\n"
        "from otel_rl.process import process_identity\n"
        "process_identity.update(role='trainer', algorithm='grpo')\n"
        "with otel_rl.tool('x'): pass\n"
    )

    assert {(one["rl.role"], one["rl.algorithm"]) for one in collector.resources()["traces"]} == {("judge", "grpo")}


def test_forked_child_has_no_step_of_its_parent_and_does_not_lead(configured: Programs) -> None:
    done = configured.instrumented(
        "import multiprocessing, otel_rl\n"
        "from otel_rl.process import process_identity\n"
        "from otel_rl.training import steps\n"
        "context = multiprocessing.get_context('fork')\n"
        "queue = context.SimpleQueue()\n"
        "def child(): queue.put((steps.where().step is not None, process_identity.current().leads))\n"
        "with otel_rl.step(1):\n"
        "    process = context.Process(target=child); process.start(); print(queue.get()); process.join()\n"
    )

    assert done.out == "(False, False)\n"


def test_forked_worker_reports_its_own_numbers_once(configured: Programs, collector: Collector) -> None:
    configured.instrumented(
        "import multiprocessing\n"
        "from opentelemetry import metrics, trace\n"
        "tracer, counter = trace.get_tracer('t'), metrics.get_meter('t').create_counter('things')\n"
        "def work(name, number):\n"
        "    with tracer.start_as_current_span(name): counter.add(number)\n"
        "work('parent', 1)\n"
        "process = multiprocessing.get_context('fork').Process(target=work, args=('worker', 10))\n"
        "process.start(); process.join()\n"
    )

    assert sorted(collector.spans()) == ["parent", "rl.run", "worker"]
    assert set(collector.points("things")) == {1, 10}


def test_no_thread_and_no_request_before_the_first_record(configured: Programs, collector: Collector) -> None:
    done = configured.instrumented("import os; print(len(os.listdir('/proc/self/task')))\n", OTEL_RL_QUIET="1")

    assert (done.out, done.err) == ("1\n", "")
    assert collector.requests == []


@pytest.mark.parametrize("processor", ["batch", "simple"])
def test_dead_collector_costs_the_exit_timeout_and_one_line_that_counts(programs: Programs, processor: str) -> None:
    configure(programs, closed_port(), processor)
    done = programs.instrumented("import otel_rl\nwith otel_rl.tool('x'): pass\n", OTEL_RL_EXIT_TIMEOUT="0.5")

    assert done.code == 0
    (line,) = done.err.splitlines()
    assert "2 spans could not be delivered to http://127.0.0.1:" in line


def test_flush_is_repeatable(configured: Programs, collector: Collector) -> None:
    done = configured.instrumented(
        "import otel_rl\nfor number in range(3):\n    with otel_rl.tool('x'): pass\n    print(otel_rl.flush(60))\n"
    )

    assert done.out == "True\n" * 3
    assert collector.requests.count("/v1/traces") >= 3


def test_temporality_of_the_file_is_honoured(programs: Programs, collector: Collector) -> None:
    configure(programs, collector.port, temporality="delta")
    programs.instrumented(
        "import otel_rl\nfrom opentelemetry import metrics\n"
        "counter = metrics.get_meter('t').create_counter('things')\n"
        "for number in (3, 4): counter.add(number); otel_rl.flush(60)\n"
    )

    assert collector.points("things") == [3, 4]
