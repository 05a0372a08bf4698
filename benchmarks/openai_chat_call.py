"""Added CPU time of a chat call: ours against the official OpenAI instrumentor's.

    python benchmarks/openai_chat_call.py [--rounds 60] [--calls 64] [--output FILE]

The transport answers at once, so what is left is the client's own work and what is added to it. CPU time of the whole
process is taken. Each round runs the variants of a call one right after the other, the next round in reverse order;
the figures are medians over rounds of paired differences, the bounds a bootstrap of them.

The process runs under ``opentelemetry-instrument`` with our distro and no endpoint, as users have it, with
instrumentors off; those measured are put on and taken off. Both write into the file store, because the question is what
the choice of instrumentor costs; with the official distro and an OTLP exporter the comparison would be one of encoders.
Metrics are exported every 15 s as always; that falls on any variant and on few samples.

Every sample ends with what its calls have left for later: the measurements that ours keeps for up to 32 calls, and a
flush of the spans, which are encoded and written on our thread.

The cost of a chunk is the slope: a long stream less a short one, divided by the chunks between.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chat_workload import FEW, MANY, Workload
from figures import finish, ratio_of_medians, samples_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    #: Shape -> variant -> one value per round.
    Samples = dict[str, dict[str, list[float]]]

VARIANTS = ("none", "otel_rl", "official")
#: The flag of the process that measures.
PROGRAM = "--program"
#: By how much fewer calls of a shape than `--calls` are in one sample: one of each takes about as long.
PARTS = {"agent_turn": 2, "stream": 4, "async_stream": 4, "long_stream": 16, "async_long_stream": 16}
LIMITS = {"chat": 0.5, "async_chat": 0.5, "chunk": 0.15, "async_chunk": 0.15}


def _settle() -> None:
    """Do what the calls have left for later."""
    from opentelemetry import trace

    from otel_rl.inference import measurements

    measurements.pending.record()
    trace.get_tracer_provider().force_flush()


def _instrumentors() -> dict[str, Any]:
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor as Official

    from otel_rl.instrumentors.openai import OpenAIInstrumentor as Ours

    return {"none": None, "otel_rl": Ours(), "official": Official()}


@contextmanager
def _put_on(instrumentor: Any) -> Iterator[None]:
    if instrumentor is not None:
        instrumentor.instrument()
        if not instrumentor.is_instrumented_by_opentelemetry:
            raise SystemExit(f"{type(instrumentor).__module__} did not instrument openai")
    try:
        yield
    finally:
        if instrumentor is not None:
            instrumentor.uninstrument()


def measure(rounds: int, calls: int) -> Samples:
    """CPU seconds per call."""
    workload, instrumentors = Workload(), _instrumentors()
    samples: Samples = {shape: {variant: [] for variant in VARIANTS} for shape in workload.shapes}
    for round_number in range(rounds):
        for shape in workload.shapes:
            number = calls // PARTS.get(shape, 1)
            gc.collect()
            for variant in VARIANTS if round_number % 2 else VARIANTS[::-1]:
                with _put_on(instrumentors[variant]):
                    samples[shape][variant].append(workload.seconds(shape, number, _settle))
    return samples


def with_chunks(samples: Samples) -> Samples:
    """Return `samples` with the CPU seconds per chunk in place of the streams."""
    found = {shape: values for shape, values in samples.items() if "stream" not in shape}
    for kind in ("", "async_"):
        few, many = samples[f"{kind}stream"], samples[f"{kind}long_stream"]
        found[f"{kind}chunk"] = {
            variant: [(b - a) / (MANY - FEW) for a, b in zip(few[variant], many[variant], strict=True)]
            for variant in VARIANTS
        }
    return found


def figures_of(samples: Samples) -> dict[str, Any]:
    """Ours divided by the official one's, and both by themselves."""
    found: dict[str, Any] = {}
    for shape, values in with_chunks(samples).items():
        ours, official = (
            [value - without for value, without in zip(values[variant], values["none"], strict=True)]
            for variant in VARIANTS[1:]
        )
        figure: dict[str, Any] = ratio_of_medians(list(zip(ours, official, strict=True)))
        if shape in LIMITS:
            figure["limit"] = LIMITS[shape]
        found[f"{shape}, ours / official"] = figure
        for name, added in (("ours", ours), ("official", official)):
            found[f"{shape}, added by {name}, us"] = {"value": round(statistics.median(added) * 1e6, 2)}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument(
        "--calls", type=int, default=64, help="calls of one sample, at least 64; of streams there are fewer"
    )
    parser.add_argument(PROGRAM, action="store_true", help=argparse.SUPPRESS)
    options, _ = parser.parse_known_args()
    if options.program:
        print(json.dumps(measure(options.rounds, options.calls)))
        return 0
    samples = samples_of(__file__, PROGRAM, "--rounds", str(options.rounds), "--calls", str(options.calls))
    return finish("openai_chat_call", figures_of(samples), samples, __doc__)


if __name__ == "__main__":
    sys.exit(main())
