"""A trainer and vLLM on the CPU in one process: syncs that go wrong, 50 clean ones, and what the comparison takes.

    python benchmarks/weight_sync.py [--output FILE]      (in an environment with vLLM, see tests/library_versions.py)

Each run is `tests/engines/sync_program.py`, in fp32 with a large learning rate and a tiny random model.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "engines"), str(HERE.parent / "examples")]

import tiny_model  # noqa: E402 - found by the line above
import torch  # noqa: E402 - as above
from engine_runs import run  # noqa: E402 - as above
from figures import machine  # noqa: E402 - as above

from otel_rl.weight_sync.tensor_sums import sums_of  # noqa: E402 - as above

#: Name -> steps, what goes wrong in the sync of a step, the variable's value.
RUNS = {
    "faults, all": (10, {3: "skipped", 5: "partial", 7: "forgotten", 9: "still"}, "all"),
    "faults, log-probabilities": (10, {3: "skipped", 5: "partial", 7: "forgotten", 9: "still"}, "logprobs"),
    "clean, all": (51, {}, "all"),
}
PARAMETERS = 64 << 20


def one_run(name: str, model: Path, folder: Path) -> dict[str, object]:
    """Run the program once, and return what was told of its syncs."""
    steps, faults, mode = RUNS[name]
    given = [f"{step}={fault}" for step, fault in faults.items()]
    variables = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "OTEL_RL_SYNC_CHECK": mode}
    store = run(
        "sync_program.py", folder / name.replace(" ", "-"), str(model), str(steps), *given, watched=True, **variables
    ).store
    told = [
        [one["attributes"].get("rl.loop.iteration"), one["attributes"]["rl.sync.verdict"]]
        for one in store.events
        if one["eventName"] == "rl.sync.problem"
    ]
    taken = store.last("rl.sync.check.duration")
    verdicts = {point["attributes"]["rl.sync.verdict"]: int(point["asInt"]) for point in store.points["rl.sync.checks"]}
    mean = taken["sum"] / int(taken["count"])
    return {
        "steps": steps,
        "faults": faults,
        "told": told,
        "verdicts": verdicts,
        "seconds per comparison": round(mean, 5),
    }


def sums_seconds(dtype: torch.dtype) -> float:
    """Seconds to sum up a billion parameters on one core."""
    torch.set_num_threads(1)
    tensors = [torch.randn(4096, 4096).to(dtype) for _ in range(PARAMETERS >> 24)]
    sums_of(tensors)
    began = time.perf_counter()
    sums_of(tensors)
    return round((time.perf_counter() - began) / PARAMETERS * 1e9, 2)


def main() -> None:
    """Run all, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE / "results" / "weight_sync.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model = tiny_model.build(Path(scratch) / "tiny", heads=2)
        figures = {name: one_run(name, model, Path(scratch)) for name in RUNS}
    seconds = {str(dtype): sums_seconds(dtype) for dtype in (torch.float32, torch.bfloat16)}
    figures["checksums: seconds per billion parameters, one core"] = seconds
    options.output.write_text(json.dumps({"benchmark": "weight_sync", "figures": figures, "machine": machine()}) + "\n")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
