"""Our own CPU time in a call of vLLM's `LLM.generate` with 256 requests, measured directly.

    make test-engines            (makes the environment, $HOME/.cache/otel-rl/library-versions/vllm-0.32.0)
    ENVIRONMENT/bin/python benchmarks/engine_generate.py [--calls 20] [--output FILE]

The program is started by `opentelemetry-instrument` and writes the file store. Counted is what `own_cpu.py` counts: our
replacements on the program's thread, less the originals that they call, and our threads. It is compared with the time
that the call takes, on the CPU with a tiny random model: a larger one takes longer and costs us the same.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import bootstrap, finish, instrumented

REQUESTS, TOKENS, CALLS, WARM_UP = 256, 32, 20, 3
LIMIT_SHARE = 0.01
OUTPUT, MODEL, NUMBER = "OTEL_RL_BENCHMARK_SAMPLES", "OTEL_RL_BENCHMARK_MODEL", "OTEL_RL_BENCHMARK_CALLS"
#: Of vLLM: nothing is downloaded or reported, one process, no compilation.
VLLM = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
}


def watched() -> None:
    """Run the program, which writes a sample per call."""
    from own_cpu import OwnCpu

    own = OwnCpu()
    own.install()

    from vllm import LLM, SamplingParams

    import otel_rl

    llm = LLM(
        model=os.environ[MODEL],
        dtype="float32",
        enforce_eager=True,
        max_model_len=256,
        max_num_seqs=64,
        disable_log_stats=False,
    )
    sampling = SamplingParams(max_tokens=TOKENS, ignore_eos=True, temperature=1.0)
    prompts = [f"What is {number} + 2?" for number in range(REQUESTS)]
    readings, seconds = [], []
    last = WARM_UP + int(os.environ[NUMBER]) - 1
    for call in range(last + 1):
        with otel_rl.step(call), otel_rl.phase("sample"):
            began = time.perf_counter()
            outputs = llm.generate(prompts, sampling, use_tqdm=False)
            seconds.append(time.perf_counter() - began)
        if call == last:
            # What waits yet belongs to the calls.
            otel_rl.flush(30)
        readings.append(own.read())
    samples = [
        {"seconds": took, **{name: b - a for name, a, b in zip(own.read()._fields, before, after, strict=True)}}
        for took, (before, after) in zip(seconds[WARM_UP:], itertools.pairwise(readings[WARM_UP - 1 :]), strict=True)
    ]
    tokens = sum(len(one.token_ids) for output in outputs for one in output.outputs)
    written = {"calls": samples, "tokens": tokens, "replacements": own.replacements}
    Path(os.environ[OUTPUT]).write_text(json.dumps(written))


def measure(calls: int) -> dict[str, Any]:
    """Return what the program wrote."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import tiny_model

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        variables = {
            **VLLM,
            "OTEL_RL_DATA_DIR": str(folder / "data"),
            OUTPUT: str(folder / "samples.json"),
            MODEL: str(tiny_model.build(folder / "tiny", heads=2)),
            NUMBER: str(calls),
        }
        instrumented(__file__, folder=folder, **variables)
        return json.loads((folder / "samples.json").read_text())


def main() -> int:
    """Measure, print and write the result; returns the exit status."""
    if OUTPUT in os.environ:
        watched()
        return 0
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--calls", type=int, default=CALLS)
    options, _ = parser.parse_known_args()
    measured = measure(options.calls)
    calls = measured["calls"]
    if not measured["replacements"]:
        raise SystemExit("no replacement was timed; something instrumented was imported too early")
    clock = sum(call["empty_ns"] for call in calls) / sum(call["empty_stretches"] for call in calls)

    def milliseconds(call: dict[str, float]) -> float:
        return (call["host_ns"] - call["stretches"] * clock + call["threads_ns"]) / 1e6

    share = bootstrap(calls, lambda drawn: sum(map(milliseconds, drawn)) / sum(one["seconds"] for one in drawn) / 1e3)
    figures = {
        "share of the call": {**share, "judged": share["upper_95"], "limit": LIMIT_SHARE},
        "own CPU per call, ms": bootstrap(calls, lambda drawn: statistics.fmean(milliseconds(one) for one in drawn)),
        "seconds per call": {"value": round(statistics.median(one["seconds"] for one in calls), 3)},
        "tokens per call": {"value": measured["tokens"], "at_least": REQUESTS * TOKENS},
    }
    return finish("engine_generate", figures, measured, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
