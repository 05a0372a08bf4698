"""The end of a process: bounded, and its own in output and exit code."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from process_support import ONE_SPAN, Collector, Programs, closed_port, silent_server

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

#: Imported before the end, whose time is for the endpoints and the files here.
IMPORT_OTHERS = """
import opentelemetry.exporter.otlp.proto.grpc._log_exporter
import opentelemetry.exporter.otlp.proto.grpc.metric_exporter
import opentelemetry.exporter.otlp.proto.http._log_exporter
import opentelemetry.exporter.otlp.proto.http.metric_exporter
import otel_rl.store.writer.file_exporter
import otel_rl.store.writer.otlp_json
import requests
"""
IMPORT_EXPORTERS = f"""{IMPORT_OTHERS}
import opentelemetry.exporter.otlp.proto.grpc.trace_exporter
import opentelemetry.exporter.otlp.proto.http.trace_exporter
"""


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("state", ["refusing", "hanging"])
def test_dead_collector_delays_the_end_by_no_more_than_the_timeout(
    programs: Programs, protocol: str, state: str
) -> None:
    server: AbstractContextManager[Any] = silent_server() if state == "hanging" else nullcontext(closed_port())
    with server as port:
        done = programs.instrumented(
            IMPORT_EXPORTERS + ONE_SPAN,
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
            OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
            # A delivery alone would wait for longer than the program may run here.
            OTEL_EXPORTER_OTLP_TIMEOUT="600",
            # After some seconds gRPC itself knows that it has not connected.
            OTEL_RL_EXIT_TIMEOUT="6" if protocol == "grpc" else "12",
        )

    assert done.code == 0
    (line,) = done.err.splitlines()
    assert re.search(r"2 spans, 1 metric point and 2 log records could not be delivered to http://127.0.0.1:\d+", line)
    assert "unset OTEL_EXPORTER_OTLP_ENDPOINT" in line
    assert "kept in ./otel-rl/" in line
    assert programs.store.span_names() == ["work"]
    assert len(programs.store.points("made")) == 1
    assert ("may come twice" in line) is (state == "hanging")


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize(
    ("signal", "lost"), [("traces", "2 spans"), ("logs", "2 log records"), ("metrics", "1 metric")]
)
def test_endpoint_that_hangs_at_the_end_costs_its_own_signal_only(
    programs: Programs, collector: Collector, signal: str, lost: str, protocol: str
) -> None:
    with silent_server() as port:
        done = programs.instrumented(
            IMPORT_EXPORTERS + ONE_SPAN,
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}",
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
            OTEL_RL_EXIT_TIMEOUT="6",
            **{
                f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT": f"http://127.0.0.1:{port}/v1/{signal}",
                f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL": protocol,
            },
        )

    others = {"traces", "logs", "metrics"} - {signal}
    assert set(collector.requests) == {f"/v1/{other}" for other in others}
    (line,) = done.err.splitlines()
    assert re.search(rf"{lost}( point)?s? could not be delivered to http://127.0.0.1:{port}", line), line
    assert done.code == 0


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_exporter_whose_import_takes_longer_than_the_timeout_still_delivers(
    programs: Programs, collector: Collector, protocol: str
) -> None:
    name = protocol.partition("/")[0]
    done = programs.instrumented(
        IMPORT_OTHERS + ONE_SPAN + "import sys, time\n"
        "class SlowDisk:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == 'opentelemetry.exporter.otlp.proto.{name}.trace_exporter': time.sleep(9)\n"
        "sys.meta_path.insert(0, SlowDisk())\n",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=protocol,
        OTEL_RL_EXIT_TIMEOUT="8",
    )

    # The collector speaks HTTP: of gRPC it shows that the other signals are delivered.
    expected = {"/v1/traces", "/v1/metrics", "/v1/logs"} - ({"/v1/traces"} if name == "grpc" else set())
    assert set(collector.requests) == expected, done.err
    assert done.code == 0


def test_timeout_of_nought_waits_for_no_import(programs: Programs, collector: Collector) -> None:
    done = programs.instrumented(
        ONE_SPAN + "import sys, time\n"
        "class SlowDisk:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'opentelemetry.exporter.otlp.proto.http.trace_exporter': time.sleep(600)\n"
        "sys.meta_path.insert(0, SlowDisk())\n",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_RL_EXIT_TIMEOUT="0",
    )

    # It has ended before the import.
    assert done.code == 0


def test_files_are_written_where_an_endpoint_beside_them_hangs_at_the_end(programs: Programs) -> None:
    with silent_server() as port:
        done = programs.instrumented(
            ONE_SPAN,
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"http://127.0.0.1:{port}/v1/traces",
            OTEL_TRACES_EXPORTER="otlp,otel_rl_file",
            OTEL_RL_EXIT_TIMEOUT="6",
        )

    assert programs.store.span_names() == ["work"]
    assert len(programs.store.points("made")) == 1
    assert "could not be delivered to http://127.0.0.1:" in done.err


def test_exit_code_and_stderr_of_an_exception_are_the_programs_own(programs: Programs) -> None:
    text = ONE_SPAN + "def fail():\n    raise ValueError('boom')\nfail()\n"
    without, done = programs.plain(text), programs.instrumented(text, OTEL_RL_QUIET="1")

    assert (done.code, done.err, done.out) == (without.code, without.err, without.out)
    (record,) = programs.store.events("rl.process.exception")
    values = {item["key"]: item["value"].get("stringValue") for item in record["attributes"]}
    assert record["severityText"] == "FATAL"
    assert (values["exception.type"], values["exception.message"]) == ("ValueError", "boom")
    assert values["exception.stacktrace"] in done.err
    (manifest,) = programs.store.manifests()
    assert (manifest["clean_exit"], manifest["exit_reason"]) == (False, "uncaught ValueError")


def test_exception_names_rank_and_last_step(programs: Programs) -> None:
    programs.instrumented("import otel_rl\notel_rl.step(7).__enter__()\nraise RuntimeError\n", RANK="2", WORLD_SIZE="4")

    (record,) = programs.store.events("rl.process.exception")
    values = {item["key"]: item["value"] for item in record["attributes"]}
    assert values["rl.rank"] == {"intValue": "2"}
    assert values["rl.loop.iteration"] == {"intValue": "7"}
    (step,) = [span for span in programs.store.spans() if span["name"] == "rl.rank.step"]
    assert record["traceId"] == step["traceId"]


def test_hook_of_the_program_runs_as_it_was_and_a_replaced_one_loses_nothing(programs: Programs) -> None:
    text = ONE_SPAN + (
        "import sys\n"
        "sys.excepthook = lambda *arguments: print('hook of the program', arguments[0].__name__)\n"
        "raise KeyError('k')\n"
    )
    done = programs.instrumented(text)

    assert (done.code, done.out) == (1, "hook of the program KeyError\n")
    assert len(programs.store.events("rl.process.exception")) == 1


def test_exception_in_a_thread_is_recorded_and_the_program_goes_on(programs: Programs) -> None:
    done = programs.instrumented(
        ONE_SPAN + "import threading\n"
        "thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join(); raise SystemExit(7)\n"
    )

    assert done.code == 7
    assert "ZeroDivisionError" in done.err
    assert len(programs.store.events("rl.process.exception")) == 1
    assert programs.store.manifests()[0]["clean_exit"] is True


def test_what_an_atexit_handler_of_the_program_records_is_kept(programs: Programs) -> None:
    programs.instrumented(
        "import atexit\nfrom opentelemetry import trace\n"
        "atexit.register(lambda: trace.get_tracer('t').start_span('late').end())\n"
    )

    assert programs.store.span_names() == ["late"]


def test_full_queue_drops_are_counted_by_reason(programs: Programs) -> None:
    programs.instrumented(
        "from opentelemetry import trace\nfor _ in range(200): trace.get_tracer('t').start_span('s').end()\n",
        OTEL_BSP_MAX_QUEUE_SIZE="10",
        OTEL_BSP_SCHEDULE_DELAY="60000",
    )

    kept, dropped = len(programs.store.span_names()), programs.store.manifests()[0]["dropped"]["traces"]["queue_full"]
    assert kept >= 10
    assert kept + dropped in (200, 201)


def test_queues_and_exporters_are_observed_under_the_names_of_the_sdk(programs: Programs) -> None:
    programs.instrumented(
        "from opentelemetry import trace\nimport otel_rl\n"
        "for _ in range(30): trace.get_tracer('t').start_span('s').end()\n"
        "otel_rl.flush(60)\n",
        OTEL_BSP_MAX_QUEUE_SIZE="10",
        OTEL_BSP_SCHEDULE_DELAY="60000",
    )

    def latest(name: str) -> dict[str, int]:
        by_error = {}
        for point in programs.store.points(f"otel.sdk.{name}"):
            values = {one["key"]: one["value"]["stringValue"] for one in point["attributes"]}
            by_error[values.get("error.type", "")] = int(point["asInt"])
        return by_error

    assert latest("processor.span.queue.capacity") == {"": 10}
    assert latest("processor.span.queue.size") == {"": 0}
    processed = latest("processor.span.processed")
    assert processed[""] + processed["queue_full"] in (30, 31)
    assert latest("exporter.span.exported") == {"": processed[""]}
    assert latest("exporter.span.inflight") == {"": 0}


def test_endpoint_receives_all_signals_and_the_line_says_so(programs: Programs, collector: Collector) -> None:
    done = programs.instrumented(
        ONE_SPAN,
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
    )

    assert set(collector.requests) == {"/v1/traces", "/v1/metrics", "/v1/logs"}
    assert done.err.strip().endswith(f"sent to http://127.0.0.1:{collector.port}")
    assert not (programs.directory / "otel-rl").exists()


def test_program_that_shuts_its_provider_down_still_ends_cleanly(programs: Programs) -> None:
    done = programs.instrumented(
        ONE_SPAN + "from opentelemetry import metrics, trace\n"
        "trace.get_tracer_provider().force_flush(); trace.get_tracer_provider().shutdown()\n"
        "metrics.get_meter_provider().shutdown()\n"
    )

    assert done.code == 0
    assert programs.store.span_names() == ["work"]
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_signal_ends_the_process_as_it_would_without_us(programs: Programs, name: str) -> None:
    # A shell starts its background jobs with SIGINT ignored, and so this test maybe: the program has its default again.
    default = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    text = ONE_SPAN + f"import os, signal, time\n{default}\nos.kill(os.getpid(), signal.{name}); time.sleep(600)\n"
    without, done = programs.plain(text), programs.instrumented(text, OTEL_RL_QUIET="1")

    assert (done.code, done.err) == (without.code, without.err)


def test_last_line_says_what_a_full_queue_dropped(programs: Programs) -> None:
    text = (
        "from opentelemetry import trace\n"
        "tracer = trace.get_tracer('program')\n"
        "for _ in range(3000): tracer.start_span('work').end()\n"
    )
    done = programs.instrumented(text, OTEL_BSP_MAX_QUEUE_SIZE="1", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1")

    (line,) = done.err.splitlines()
    pattern = r"recorded (\d+) spans?.*, dropped \(traces: (\d+) queue_full; raise OTEL_BSP_MAX_QUEUE_SIZE"
    recorded, dropped = re.search(pattern, line).groups()
    assert int(recorded) + int(dropped) == 3001  # the run's own span too
    assert len(programs.store.spans()) == int(recorded)


def test_exceptions_of_threads_do_not_hide_the_one_that_ends_the_program(programs: Programs) -> None:
    # What a thread has raised is freed, and the next exception may get its id.
    programs.instrumented(
        "import threading\n"
        "def fail(): raise ValueError('in a thread')\n"
        "for _ in range(20):\n"
        "    thread = threading.Thread(target=fail); thread.start(); thread.join(); del thread\n"
        "raise ValueError('the last one')\n"
    )

    (manifest,) = programs.store.manifests()
    assert (manifest["clean_exit"], manifest["exit_reason"]) == (False, "uncaught ValueError")
    assert len(programs.store.events("rl.process.exception")) == 21


def test_exception_hook_stays_the_interpreters_own(programs: Programs) -> None:
    # Libraries that improve tracebacks step back where somebody else has a hook.
    assert programs.instrumented("import sys; print(sys.excepthook is sys.__excepthook__)").out == "True\n"


def test_run_begins_and_ends_also_where_a_rank_never_becomes_known(programs: Programs) -> None:
    programs.instrumented(
        "import sys, types; sys.modules['torch.distributed'] = types.ModuleType('torch.distributed')\n" + ONE_SPAN
    )

    (start,), (end,) = programs.store.events("rl.run.start"), programs.store.events("rl.run.end")
    assert int(start["timeUnixNano"]) < int(end["timeUnixNano"])


def test_signal_handler_may_record_while_a_thread_starts(programs: Programs) -> None:
    # threading.Thread.start holds a lock that is not re-entrant: an I/O thread that took it would wait for ever here.
    done = programs.instrumented(
        """
import faulthandler, os, signal, threading
from opentelemetry import metrics, trace
signal.signal(signal.SIGUSR1, lambda *_: trace.get_tracer("t").start_span("in-handler").end())
faulthandler.dump_traceback_later(100, exit=True)
with threading._active_limbo_lock:
    os.kill(os.getpid(), signal.SIGUSR1)
metrics.get_meter("m").create_counter("made").add(1)
print("went on")
"""
    )

    assert (done.code, done.out) == (0, "went on\n")
    assert programs.store.span_names() == ["in-handler"]
    assert len(programs.store.points("made")) == 1


def test_log_body_that_cannot_be_encoded_costs_no_other_record(programs: Programs) -> None:
    done = programs.instrumented(
        "import otel_rl\n"
        "otel_rl.event('first', 'text')\n"
        "otel_rl.event('odd', {1: object(), 'big': 2**70, 'list': [1, {2}]})\n"
        "otel_rl.event('last', 'text')\n",
        OTEL_RL_QUIET="1",
    )

    assert done.err == ""
    assert [len(programs.store.events(name)) for name in ("first", "odd", "last")] == [1, 1, 1]


def test_span_that_otlp_cannot_encode_costs_no_other(programs: Programs, collector: Collector) -> None:
    done = programs.instrumented(
        "from opentelemetry import trace\n"
        "tracer = trace.get_tracer('t')\n"
        "for name in ('a', '\\ud83d', 'b'): tracer.start_span(name).end()\n",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
    )

    assert sorted(collector.spans()) == ["a", "b", "rl.run"]
    (line,) = done.err.splitlines()
    assert "1 span could not be delivered" in line


def test_dead_collector_is_told_once_while_the_program_runs_and_with_its_cost_at_the_end(programs: Programs) -> None:
    done = programs.instrumented(
        "from opentelemetry import trace\nimport otel_rl\n"
        "for _ in range(5):\n"
        "    trace.get_tracer('t').start_span('s').end(); otel_rl.flush(20)\n",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{closed_port()}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_TIMEOUT="0.2",
        OTEL_RL_EXIT_TIMEOUT="5",
    )

    running, end = done.err.splitlines()
    assert "nothing reaches http://127.0.0.1:" in running
    # The exporter itself says "due to timeout, max retries or shutdown" here.
    assert "(Connection refused)" in running
    assert "(Connection refused)" in end
    assert "the program goes on; check that a collector answers there" in running
    assert "6 spans" in end


def test_program_that_is_killed_young_leaves_metrics_and_spans(programs: Programs) -> None:
    done = programs.instrumented(
        ONE_SPAN + "import glob, os, signal, time\n"
        "def written(signal): return any('work' in text or 'made' in text for text in"
        " (open(name).read() for name in glob.glob(f'otel-rl/*/*/{signal}-*.jsonl')))\n"
        "while not (written('traces') and written('metrics')): time.sleep(0.01)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
        OTEL_METRIC_EXPORT_INTERVAL="3600000",
        OTEL_BSP_SCHEDULE_DELAY="3600000",
    )

    assert done.code == -9
    assert programs.store.span_names() == ["work"]
    assert len(programs.store.points("made")) == 1


def test_a_callback_that_waits_is_not_taken_for_a_file_system_that_does_not_answer(programs: Programs) -> None:
    done = programs.instrumented(
        "import threading, otel_rl\n"
        "from opentelemetry import metrics\n"
        "def observe(options):\n"
        "    threading.Event().wait(250)\n"
        "    return [metrics.Observation(1)]\n"
        "metrics.get_meter('program').create_observable_gauge('level', [observe])\n"
        "with otel_rl.step(1): pass\n",
        OTEL_RL_EXIT_TIMEOUT="1.5",
    )
    assert "could not be delivered" in done.err
    assert "(the values were not collected in time); look for a callback of an observable instrument" in done.err
    assert "file system" not in done.err


def test_metric_export_timeout_bounds_the_programs_callbacks(programs: Programs) -> None:
    done = programs.instrumented(
        "import otel_rl, threading\nfrom opentelemetry import metrics\n"
        "released = threading.Event()\n"
        "def observe(_):\n"
        "    released.wait(1); return [metrics.Observation(1)]\n"
        "meter = metrics.get_meter('t')\n"
        # The SDK looks at the time before each instrument.
        "for name in ('slow', 'next'): meter.create_observable_gauge(name, [observe])\n"
        "meter.create_counter('made').add(1)\n"
        "print(otel_rl.flush(60)); released.set()\n",
        OTEL_METRIC_EXPORT_TIMEOUT="100",
        OTEL_RL_QUIET="1",
    )

    assert done.out == "False\n"
    assert "internal error" not in done.err


def test_stderr_of_the_program_that_is_hardly_a_file_costs_only_our_line(programs: Programs) -> None:
    text = (
        ONE_SPAN + "import os, sys\n"
        "class Hardly:\n"
        "    def write(self, text): raise AttributeError(text)\n"
        "    def flush(self): pass\n"
        "sys.stderr = Hardly()\n"
    )
    done = programs.instrumented(text)

    assert (done.code, done.err) == (0, "")
    assert programs.store.manifests()[0]["clean_exit"] is True
