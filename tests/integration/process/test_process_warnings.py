"""Python's warnings come exactly as often as without us."""

from __future__ import annotations

import sys

import pytest
from process_support import INSTRUMENT, Collector, Programs

#: Warns from several places before, between and after what makes us record and export.
PROGRAM = """
import warnings
import otel_rl
from opentelemetry import metrics, trace
from library import deprecated

def old(category=FutureWarning):
    try:
        warnings.warn("old", category)
    except Warning as error:
        print("raised", error)

def everything():
    for category in (FutureWarning, DeprecationWarning, UserWarning, ResourceWarning):
        old(category)
    old()
    deprecated()

everything()
for number in range(2):
    with otel_rl.step(number):
        everything()
        with trace.get_tracer(f"program-{number}").start_as_current_span("work"):
            everything()
    metrics.get_meter("program").create_counter("made").add(1)
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        getattr(provider, "force_flush", bool)()
    everything()
with warnings.catch_warnings():
    warnings.simplefilter("error")
    trace.get_tracer("another")
    everything()
everything()
"""
LIBRARY = """
import warnings
def deprecated():
    warnings.warn("of a library", FutureWarning)
"""


CASES = {
    "files": (None, ()),
    "http": ("http/protobuf", ()),
    "grpc": ("grpc", ()),
    "default": (None, ("-W", "default")),
    "once": (None, ("-W", "once")),
    "error": (None, ("-W", "error::DeprecationWarning")),
}


@pytest.mark.parametrize("case", CASES)
def test_warnings_come_as_often_as_without_us(programs: Programs, collector: Collector, case: str) -> None:
    protocol, options = CASES[case]
    programs.write("library.py", LIBRARY)
    programs.write("program.py", PROGRAM)
    command = [sys.executable, *options, "program.py"]
    environ = {}
    if protocol is not None:
        environ = {
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        }

    plain = programs.run(*command)
    instrumented = programs.run(INSTRUMENT, *command, **environ)

    assert "FutureWarning: old" in plain.err
    assert (instrumented.code, instrumented.out) == (plain.code, plain.out)
    ours = [line for line in instrumented.err.splitlines() if line.startswith("otel-rl: ")]
    assert ours
    assert [line for line in instrumented.err.splitlines() if line not in ours] == plain.err.splitlines()
