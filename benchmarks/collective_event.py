"""CPU time that a recorded event of a collective adds, against that of one OpenTelemetry span.

    python benchmarks/collective_event.py [--output FILE]

A collective makes two events, its launch and the wait for it. The figures with a limit are those of the dearer one,
the launch; the sum of both stands beside them. Recorded: our replacement of the method, less the bare call. Span:
started, made current, ended, batched and encoded for OTLP, with the attributes that the recorder keeps. CPU time of the
process, all interleaved in one process.

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

    def wait(self, *args: Any) -> bool:
        """Wait for nothing."""
        return True


class ProcessGroup:
    """A process group whose collectives do nothing."""

    group_desc, group_name = "default_pg", "0"
    work = Work()

    def size(self) -> int:
        """Return number of ranks."""
        return 2

    def all_reduce(self, *args: Any) -> Work:
        """Launch nothing."""
        return self.work


def recorders() -> dict[str, CollectiveRecorder]:
    """Return one that only counts, and one with a ring in shared memory."""
    ring = create(Path("/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()), "otel-rl-benchmark")  # noqa: S108
    ring.path.unlink()
    found = {"": CollectiveRecorder(), " with the ring": CollectiveRecorder()}
    flight._use(ring)
    found[" with the ring"].flight_records = FlightRecords(
        lambda _: "0\tdefault_pg\t0-1", lambda call, *args: call(*args)
    )
    return found


def collective_loops(launch: Callable[..., Work], wait: Callable[..., object]) -> list[Callable[[], None]]:
    """Return loops of launches, and of launches with their waits."""
    group, tensors, options = ProcessGroup(), [torch.zeros(256)], object()

    def launches() -> None:
        for _ in range(COLLECTIVES):
            launch(group, tensors, options)

    def both() -> None:
        for _ in range(COLLECTIVES):
            wait(launch(group, tensors, options))

    return [launches, both]


def span_loop() -> Callable[[], None]:
    """Return a function that makes spans and waits until they are exported."""
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
        provider.force_flush()

    return spans


def cpu(loop: Callable[[], object], number: int) -> float:
    """CPU nanoseconds of the process per item."""
    started = time.process_time_ns()
    loop()
    return (time.process_time_ns() - started) / number


def main() -> int:
    bare, spans = collective_loops(ProcessGroup.all_reduce, Work.wait), span_loop()
    recorded = {
        ring: collective_loops(
            recorder.recording("all_reduce", 0, ProcessGroup.all_reduce), recorder.waiting(Work.wait)
        )
        for ring, recorder in recorders().items()
    }
    for warm_up in (spans, *bare, *(loop for loops in recorded.values() for loop in loops)):
        warm_up()
    samples: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        without = [cpu(loop, COLLECTIVES) for loop in bare]
        sample = {"exported span": cpu(spans, SPANS)}
        for ring, loops in recorded.items():
            launch, both = (cpu(loop, COLLECTIVES) - base for loop, base in zip(loops, without, strict=True))
            sample |= {f"launch event{ring}": launch, f"launch and wait{ring}": both}
        samples.append(sample)
    figures: dict[str, Any] = {
        f"{name}, ns": {"value": round(statistics.median(sample[name] for sample in samples))} for name in samples[0]
    }
    for ring in recorded:
        pairs = [(sample[f"launch event{ring}"], sample["exported span"]) for sample in samples]
        figures[f"launch event{ring} / exported span"] = {**ratio_of_medians(pairs), "limit": LIMIT}
    return finish("collective_event", figures, samples, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
