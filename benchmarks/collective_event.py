"""CPU time that a recorded event of a collective adds, against that of one OpenTelemetry span.

    python benchmarks/collective_event.py [--output FILE]

A collective makes two events, its launch and the wait for it. The figures with a limit are those of the dearer one,
the launch; the sum of both stands beside them. Recorded: our replacement of the method, less the bare call. Span:
started, made current, ended, batched and encoded for OTLP, with the attributes that the recorder keeps. CPU time of the
process, all interleaved in one process; the last figure takes the span without export, in the thread that makes it.

`with the ring` adds the flight recorder: both events get a begin and an end in a mapped file, with the number of the
collective.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from figures import finish, ratio_of_medians

from otel_rl.collectives.flight_records import FlightRecords
from otel_rl.collectives.recorder import CollectiveRecorder
from otel_rl.flight_recorder.recorder import flight
from otel_rl.flight_recorder.ring import create
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 0.02
ROUNDS = 60
COLLECTIVES = 5000
SPANS = 500


class Work:
    """What a collective returns."""

    def bare_wait(self, *args: Any) -> bool:
        """Wait for nothing."""
        return True


class ProcessGroup:
    """A process group whose collectives do nothing."""

    group_desc, group_name = "default_pg", "0"
    work = Work()

    def size(self) -> int:
        """Return number of ranks."""
        return 2

    def bare(self, *args: Any) -> Work:
        """Launch nothing."""
        return self.work


def add_ring() -> None:
    """Let the flight recorder write into a ring in shared memory."""
    ring = create(Path("/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()), "otel-rl-benchmark")  # noqa: S108
    ring.path.unlink()
    flight._use(ring)


def collective_loops() -> dict[str, Callable[[], None]]:  # noqa: C901 - six loops
    recorder = CollectiveRecorder()
    ProcessGroup.recorded = recorder.recording("all_reduce", 0, ProcessGroup.bare)
    Work.recorded_wait = recorder.waiting(Work.bare_wait)
    add_ring()
    with_ring = CollectiveRecorder()
    with_ring.flight_records = FlightRecords(lambda _: "0\tdefault_pg\t0-1", lambda call, *args: call(*args))
    ProcessGroup.in_ring = with_ring.recording("all_reduce", 0, ProcessGroup.bare)
    Work.wait_in_ring = with_ring.waiting(Work.bare_wait)
    group, tensors, options = ProcessGroup(), [torch.zeros(256)], object()

    def bare_launch() -> None:
        for _ in range(COLLECTIVES):
            group.bare(tensors, options)

    def recorded_launch() -> None:
        for _ in range(COLLECTIVES):
            group.recorded(tensors, options)

    def bare() -> None:
        for _ in range(COLLECTIVES):
            group.bare(tensors, options).bare_wait()

    def recorded() -> None:
        for _ in range(COLLECTIVES):
            group.recorded(tensors, options).recorded_wait()

    def ring_launch() -> None:
        for _ in range(COLLECTIVES):
            group.in_ring(tensors, options)

    def ring() -> None:
        for _ in range(COLLECTIVES):
            group.in_ring(tensors, options).wait_in_ring()

    return {
        "bare_launch": bare_launch,
        "recorded_launch": recorded_launch,
        "ring_launch": ring_launch,
        "bare": bare,
        "recorded": recorded,
        "ring": ring,
    }


def span_loop() -> tuple[Callable[[], None], Callable[[], object]]:
    """Return a function that makes spans, and one that waits until they are exported."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Encode(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            encode_spans(spans).SerializeToString()
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(
        BatchSpanProcessor(Encode(), max_queue_size=10 * SPANS, max_export_batch_size=2 * SPANS)
    )
    tracer = provider.get_tracer("benchmark")
    values = {
        attributes.TORCH_DISTRIBUTED_OPERATION: "all_reduce",
        attributes.TORCH_DISTRIBUTED_GROUP_NAME: "default_pg",
        attributes.TORCH_DISTRIBUTED_GROUP_SIZE: 2,
        attributes.TORCH_DISTRIBUTED_MESSAGE_SIZE: 1024,
    }

    def spans() -> None:
        for _ in range(SPANS):
            with tracer.start_as_current_span("all_reduce", attributes=values):
                pass

    return spans, provider.force_flush


def cpu(loop: Callable[[], object], number: int) -> float:
    """CPU nanoseconds of the process per item."""
    started = time.process_time_ns()
    loop()
    return (time.process_time_ns() - started) / number


def main() -> int:
    loops = collective_loops()
    spans, flush = span_loop()
    for warm_up in (*loops.values(), spans, flush):
        warm_up()
    samples = []
    for _ in range(ROUNDS):
        times = {name: cpu(loop, COLLECTIVES) for name, loop in loops.items()}
        made = cpu(spans, SPANS)
        exported = made + cpu(flush, SPANS)
        launch = times["recorded_launch"] - times["bare_launch"]
        in_ring = times["ring_launch"] - times["bare_launch"], times["ring"] - times["bare"]
        samples.append((launch, times["recorded"] - times["bare"], made, exported, *in_ring))
    figures: dict[str, Any] = {
        "launch event / exported span": {**ratio_of_medians([(s[0], s[3]) for s in samples]), "limit": LIMIT},
        "launch and wait / exported span": ratio_of_medians([(s[1], s[3]) for s in samples]),
        "launch event / span without export": ratio_of_medians([(s[0], s[2]) for s in samples]),
        "launch event with the ring / exported span": {
            **ratio_of_medians([(s[4], s[3]) for s in samples]),
            "limit": LIMIT,
        },
        "launch and wait with the ring / exported span": ratio_of_medians([(s[5], s[3]) for s in samples]),
    }
    names = (
        "launch event",
        "launch and wait",
        "span without export",
        "exported span",
        "launch event with the ring",
        "launch and wait with the ring",
    )
    for position, name in enumerate(names):
        figures[f"{name}, ns"] = {"value": round(statistics.median(sample[position] for sample in samples))}
    return finish("collective_event", figures, samples, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
