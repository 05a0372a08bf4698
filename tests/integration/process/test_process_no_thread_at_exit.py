"""An interpreter that starts no thread any more when ``atexit`` runs, as CPython 3.12.0 to 3.12.2 (issue 113964).

:data:`ENDS` makes any interpreter one of these; :func:`test_on_an_interpreter_that_does_it` runs on a real one.
"""

from __future__ import annotations

import os
import re
import sysconfig
import time
from pathlib import Path

import pytest
from process_support import SHORT, Collector, Programs, closed_port, silent_server

#: Refuses as ``thread_PyThread_start_new_thread`` of CPython 3.12.0; registered last, so it runs before our exit.
ENDS = """
import atexit
from otel_rl.core import threads
def ends():
    def refuse(*_): raise RuntimeError("can't create new thread at interpreter shutdown")
    threads._start = refuse
atexit.register(ends)
"""
FAILS = ENDS + "raise ValueError('wrong')\n"
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
INTERPRETERS = sorted((PYENV / "versions").glob("3.12.[012]/bin/python"))


def test_first_record_at_the_end_is_written(programs: Programs) -> None:
    done = programs.instrumented(FAILS)

    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("otel-rl: recorded 1 span and 3 log records"), done.err
    assert [len(programs.store.events(name)) for name in ("rl.process.exception", "rl.run.end")] == [1, 1]


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_first_record_at_the_end_that_no_collector_takes_is_kept(programs: Programs, protocol: str) -> None:
    done = programs.instrumented(
        FAILS,
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{closed_port()}",
        OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
    )

    # Nothing but the traceback of the program and our line.
    error, line = (line for line in done.err.splitlines() if not line.startswith(("Traceback", " ")))
    assert error == "ValueError: wrong"
    assert "1 span and 3 log records could not be delivered" in line
    assert "kept in ./otel-rl/" in done.err
    assert programs.store.events("rl.process.exception") != []


def test_collector_gets_what_was_first_recorded_at_the_end(programs: Programs, collector: Collector) -> None:
    done = programs.instrumented(
        FAILS,
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
    )

    assert set(collector.requests) == {"/v1/traces", "/v1/metrics", "/v1/logs"}, done.err
    assert done.err.splitlines()[-1].endswith(f"sent to http://127.0.0.1:{collector.port}")


def test_collector_that_hangs_delays_the_end_by_one_timeout_of_an_exporter(programs: Programs) -> None:
    began = time.monotonic()
    with silent_server() as port:
        done = programs.instrumented(
            FAILS,
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
            OTEL_EXPORTER_OTLP_TIMEOUT="2",
            OTEL_RL_EXIT_TIMEOUT="1",
        )

    # Three signals; only the first one is tried for longer than the end may take.
    assert time.monotonic() - began < 3 * 2 + 20
    assert re.search("1 span and 3 log records could not be delivered .* kept in ./otel-rl/", done.err)
    assert len(programs.store.events("rl.process.exception")) == 1


def test_files_wait_for_a_network_thread_that_runs(programs: Programs, collector: Collector) -> None:
    """What the collector refuses is written in place, after the thread that was started before the end has ended."""
    done = programs.instrumented(
        "from opentelemetry import trace\ntrace.get_tracer('program').start_span('work').end()\n" + FAILS,
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"http://127.0.0.1:{closed_port()}/v1/traces",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
    )

    assert "2 spans could not be delivered" in done.err.splitlines()[-1]
    assert "work" in programs.store.span_names()
    assert "/v1/logs" in collector.requests


def test_children_that_recorded_are_found(programs: Programs) -> None:
    """A driver of which nothing is recorded itself names the run of its children."""
    done = programs.instrumented(
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import otel_rl\\nwith otel_rl.step(1): pass'], check=True)\n"
        + SHORT.replace("float('inf')", "0.0")
        + ENDS,
        OTEL_RL_CHILDREN="all",
    )

    assert "nothing was recorded" not in done.err
    assert "otel-rl report ./otel-rl/" in done.err, done.err


def test_flush_at_the_end_delivers(programs: Programs) -> None:
    done = programs.instrumented(
        "import atexit, otel_rl\nfrom opentelemetry import trace\n"
        "def last():\n"
        "    trace.get_tracer('program').start_span('late').end()\n"
        "    print(otel_rl.flush(30), otel_rl.flush(30))\n"
        "atexit.register(last)\n" + ENDS
    )

    assert (done.code, done.out) == (0, "True True\n"), done.err
    assert programs.store.span_names() == ["late"]


def test_flush_in_a_callback_of_a_metric_does_not_wait_for_itself(programs: Programs) -> None:
    done = programs.instrumented(
        "import atexit, otel_rl\nfrom opentelemetry import metrics\nfrom opentelemetry.metrics import Observation\n"
        "def observe(_):\n"
        "    print(otel_rl.flush(600))\n"
        "    return [Observation(1)]\n"
        "def last(): metrics.get_meter('program').create_observable_gauge('made', [observe])\n"
        "atexit.register(last)\n" + ENDS
    )

    assert set(done.out.splitlines()) == {"False"}, done.err
    assert programs.store.points("made")


@pytest.mark.skipif(not INTERPRETERS, reason="no CPython 3.12.0 to 3.12.2 among pyenv's versions")
def test_on_an_interpreter_that_does_it(programs: Programs) -> None:
    """The packages of the tests' environment that its programs need are in Python, or built for any later CPython."""
    package = Path(__file__).parents[3] / "instrumentation"
    start = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
    path = os.pathsep.join([sysconfig.get_path("purelib"), str(package)])
    program = programs.write("program.py", "raise ValueError('wrong')\n")
    done = programs.run(INTERPRETERS[0], "-c", start, INTERPRETERS[0], program, PYTHONPATH=path)

    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("otel-rl: recorded 1 span and 3 log records"), done.err
    assert len(programs.store.events("rl.process.exception")) == 1
