"""Added CPU time of a chat call: ours against the official OpenAI instrumentor's.

    python benchmarks/openai_chat_call.py [--rounds 60] [--calls 64] [--output FILE]

The transport answers at once, so what is left is the client's own work and what is added to it. CPU time of the whole
process is taken. Each round runs the variants of a call one right after the other, the next round in reverse order;
the figures are medians over rounds of paired differences, the bounds a bootstrap of them.

Where the records go is the same for both, in a process of its own each:

- *SDK only*: the SDK's own batch processor, and an exporter that drops what it gets.
- *File store*: the process runs under ``opentelemetry-instrument`` with our distro and no endpoint, as users have it,
  with instrumentors off; those measured are put on and taken off. Metrics are exported every 15 s as always; that falls
  on any variant and on few samples.

Every sample ends with what its calls have left for later: the measurements that ours keeps for up to 32 calls, and a
flush of the spans. In the file store that is encoding and writing them, on our thread.

The official instrumentor exports into the same file store because the question is what the choice of instrumentor
costs. With its own distro and an OTLP exporter the comparison would be one of encoders.

The cost of a chunk is the slope: a long stream less a short one, divided by the chunks between.

CPU time is noisy where neighbours use the same caches. The count of executed bytecodes is not: it is given for SDK
only and the calling thread, with the shares of our own code, of OpenTelemetry's, and of the client's (for the
``traceparent`` header, which the official instrumentor does not send). It leaves out what is written in C.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bytecodes import executed
from chat_workload import FEW, MANY, Workload
from figures import finish, ratio_of_medians

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    #: Shape -> variant -> one value per round.
    Samples = dict[str, dict[str, list[float]]]

VARIANTS = ("none", "otel_rl", "official")
SDK_ONLY, FILE_STORE = "SDK only", "file store"
SINKS = (SDK_ONLY, FILE_STORE)
#: The flag of the process that measures one sink.
SINK = "--sink"
#: By how much fewer calls of a shape than `--calls` are in one sample: one of each takes about as long.
PARTS = {"agent_turn": 2, "stream": 4, "async_stream": 4, "long_stream": 16, "async_long_stream": 16}
#: Figures that have a limit. The chunks of a stream reach no exporter, so that one sink is enough for them.
LIMITS = {
    SDK_ONLY: {"chat": 0.6, "async_chat": 0.6, "chunk": 0.15, "async_chunk": 0.15},
    FILE_STORE: {"chat": 0.5, "async_chat": 0.5},
}


def _set_up_sdk() -> Callable[[], object]:
    """Set up providers without a destination."""
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Drop(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Drop(), max_queue_size=100_000))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
    return lambda: _settle(provider)


def _find_file_store() -> Callable[[], object]:
    """Return the providers that `opentelemetry-instrument` has set up."""
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    return lambda: _settle(provider)


def _settle(provider: Any) -> None:
    """Do what the calls have left for later."""
    from otel_rl.inference import measurements

    measurements.pending.record()
    provider.force_flush()


def _instrumentors() -> dict[str, Any]:
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor as Official

    from otel_rl.instrumentors.openai import OpenAIInstrumentor as Ours

    return {"none": None, "otel_rl": Ours(), "official": Official()}


@contextmanager
def _instrumented(instrumentor: Any) -> Iterator[None]:
    if instrumentor is not None:
        instrumentor.instrument()
        if not instrumentor.is_instrumented_by_opentelemetry:
            raise SystemExit(f"{type(instrumentor).__module__} did not instrument openai")
    try:
        yield
    finally:
        if instrumentor is not None:
            instrumentor.uninstrument()


def measure(workload: Workload, settle: Callable[[], object], rounds: int, calls: int) -> Samples:
    """CPU seconds per call."""
    instrumentors = _instrumentors()
    samples: Samples = {shape: {variant: [] for variant in VARIANTS} for shape in workload.shapes}
    for round_number in range(rounds):
        for shape in workload.shapes:
            number = calls // PARTS.get(shape, 1)
            gc.collect()
            for variant in VARIANTS if round_number % 2 else VARIANTS[::-1]:
                with _instrumented(instrumentors[variant]):
                    samples[shape][variant].append(workload.seconds(shape, number, settle))
    return samples


def with_chunks(samples: Samples) -> Samples:
    """Return `samples` with the CPU seconds per chunk in place of the long streams."""
    found = {shape: values for shape, values in samples.items() if "long" not in shape}
    for kind in ("", "async_"):
        found[f"{kind}chunk"] = {
            variant: [
                (many - few) / (MANY - FEW)
                for few, many in zip(
                    samples[f"{kind}stream"][variant], samples[f"{kind}long_stream"][variant], strict=True
                )
            ]
            for variant in VARIANTS
        }
    return found


def figures_of(sink: str, samples: Samples) -> dict[str, Any]:
    """Ours divided by the official one's, and both by themselves."""
    found: dict[str, Any] = {}
    for shape, values in with_chunks(samples).items():
        base = values["none"]
        ours, official = (
            [value - without for value, without in zip(values[variant], base, strict=True)] for variant in VARIANTS[1:]
        )
        figure: dict[str, Any] = ratio_of_medians(list(zip(ours, official, strict=True)))
        if shape in LIMITS[sink]:
            figure["limit"] = LIMITS[sink][shape]
        found[f"{sink}: {shape}, ours / official"] = figure
        for name, added in (("ours", ours), ("official", official)):
            found[f"{sink}: {shape}, added by {name}, us"] = {"value": round(statistics.median(added) * 1e6, 2)}
        found[f"{sink}: {shape}, without any, us"] = {"value": round(statistics.median(base) * 1e6, 2)}
    return found


# -- bytecodes ---------------------------------------------------------------------------------------------------------


def bytecodes(workload: Workload, shape: str, calls: int = 64) -> dict[str, Counter[str]]:
    """Bytecodes that each instrumentor adds to `calls` calls: the same however busy the machine is."""
    counts = {}
    for variant, instrumentor in _instrumentors().items():
        with _instrumented(instrumentor):
            workload.shapes[shape](calls)  # warms up
            counts[variant] = executed(workload.shapes[shape], calls)
    for counted in (counts["otel_rl"], counts["official"]):
        counted.subtract(counts["none"])
    return counts


def figures_of_bytecodes(workload: Workload) -> dict[str, Any]:
    """Bytecodes added per call and per chunk, and whose they are."""
    found: dict[str, Any] = {}
    for kind in ("", "async_"):
        calls = 64
        chat = bytecodes(workload, f"{kind}chat", calls)
        ours, official = (sum(chat[variant].values()) for variant in VARIANTS[1:])
        found[f"{kind}chat, bytecodes, ours / official"] = {"value": round(ours / official, 3)}
        found[f"{kind}chat, bytecodes, ours"] = {"value": round(ours / calls)}
        for owner in ("own code", "OpenTelemetry", "client"):
            found[f"{kind}chat, bytecodes, share of {owner}"] = {"value": round(chat["otel_rl"][owner] / ours, 3)}
        few, many = (bytecodes(workload, f"{kind}{length}", 2) for length in ("stream", "long_stream"))
        ours, official = (sum(many[v].values()) - sum(few[v].values()) for v in VARIANTS[1:])
        found[f"{kind}chunk, bytecodes, ours / official"] = {"value": round(ours / official, 3)}
        found[f"{kind}chunk, bytecodes, ours"] = {"value": round(ours / 2 / (MANY - FEW))}
    return found


# -- processes ---------------------------------------------------------------------------------------------------------


def _measure_here(sink: str, rounds: int, calls: int) -> dict[str, Any]:
    settle = _set_up_sdk() if sink == SDK_ONLY else _find_file_store()
    workload = Workload()
    samples = measure(workload, settle, rounds, calls)
    return {"samples": samples, "bytecodes": figures_of_bytecodes(workload) if sink == SDK_ONLY else {}}


def _measure_in_process(sink: str, rounds: int, calls: int) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    command = [sys.executable, __file__, SINK, sink, "--rounds", str(rounds), "--calls", str(calls)]
    with tempfile.TemporaryDirectory() as directory:
        if sink == FILE_STORE:
            command.insert(0, str(Path(sys.executable).with_name("opentelemetry-instrument")))
            environment |= {
                "OTEL_RL_DATA_DIR": directory,
                "OTEL_RL_QUIET": "1",
                "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "*",
            }
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        if sink == FILE_STORE and not any(Path(directory).rglob("traces-*")):
            raise SystemExit("nothing was written to the file store")
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument(
        "--calls", type=int, default=64, help="calls of one sample, at least 64; of streams there are fewer"
    )
    parser.add_argument(SINK, choices=SINKS, help=argparse.SUPPRESS)
    options, _ = parser.parse_known_args()
    if options.sink is not None:
        print(json.dumps(_measure_here(options.sink, options.rounds, options.calls)))
        return 0
    found = {sink: _measure_in_process(sink, options.rounds, options.calls) for sink in SINKS}
    figures = {}
    for sink, measured in found.items():
        figures |= figures_of(sink, measured["samples"]) | measured["bytecodes"]
    return finish("openai_chat_call", figures, {sink: m["samples"] for sink, m in found.items()}, __doc__)


if __name__ == "__main__":
    sys.exit(main())
