"""Bytes and CPU time per span of the file store.

    python benchmarks/file_store.py [--output FILE]

Spans are made by the SDK as an instrumentor makes them, with five attributes; the figures are what encoding and writing
them adds, on the exporting thread, which is not the program's.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import finish

BATCH = 512
ROUNDS = 20


def _make_spans() -> list[Any]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("otel_rl.benchmark")
    with tracer.start_as_current_span("rl.rank.step"):
        for number in range(BATCH - 1):
            values = {"rl.phase": "generate", "rl.loop.iteration": number, "rl.rank": 1, "a": "x" * 20, "b": 1.5}
            tracer.start_span("rl.generate", attributes=values).end()
    return list(memory.get_finished_spans())


def measure(directory: Path) -> dict[str, list[float]]:
    """CPU microseconds per span by round, and bytes per span."""
    from otel_rl.store.writer.file_exporter import FileExporter
    from otel_rl.store.writer.file_store import FileStore

    spans = _make_spans()
    limit = 1 << 30
    store = FileStore(str(directory), lambda: "run/process", dict, file_limit=limit, total_limit=limit, warn=sys.exit)
    exporter = FileExporter("traces", store)
    microseconds = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        exporter.export(spans)
        microseconds.append((time.thread_time() - start) / BATCH * 1e6)
    store.close()
    written = sum(file.stat().st_size for file in directory.rglob("traces-*.jsonl"))
    return {"microseconds": microseconds, "bytes": [written / (BATCH * ROUNDS)]}


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as directory:
        samples = measure(Path(directory))
    figures = {
        "cpu_microseconds_per_span": {"value": round(statistics.median(samples["microseconds"]), 1)},
        "bytes_per_span": {"value": round(samples["bytes"][0], 1)},
    }
    return finish("file_store", figures, samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
