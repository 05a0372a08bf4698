"""A seeded program draws the same numbers with and without us."""

from __future__ import annotations

from process_support import Programs, closed_port

PROGRAM = """
import random
random.seed(42)
from opentelemetry import metrics, trace
tracer, meter = trace.get_tracer("t"), metrics.get_meter("t")
counter, gauge, histogram = meter.create_counter("c"), meter.create_gauge("g"), meter.create_histogram("h")
for number in range(50):
    with tracer.start_as_current_span("s"):
        counter.add(1); gauge.set(number); histogram.record(number)
provider = trace.get_tracer_provider()
if hasattr(provider, "force_flush"):
    provider.force_flush(3000)
import hashlib
print(hashlib.sha256(repr(random.getstate()).encode()).hexdigest(), random.random())
"""


def test_recording_draws_nothing(programs: Programs) -> None:
    without, done = programs.plain(PROGRAM), programs.instrumented(PROGRAM)

    assert done.out == without.out
    assert len(programs.store.span_names()) == 50
    assert any(point.get("exemplars") for point in programs.store.points("c"))


def test_retries_to_a_dead_collector_draw_nothing(programs: Programs) -> None:
    without = programs.plain(PROGRAM)
    for protocol in ("grpc", "http/protobuf"):
        done = programs.instrumented(
            PROGRAM,
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{closed_port()}",
            OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
            OTEL_RL_EXIT_TIMEOUT="0.2",
        )
        assert done.out == without.out
