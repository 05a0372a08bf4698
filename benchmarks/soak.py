"""A long run without a model: what grows with the number of steps or of calls is a leak.

    python benchmarks/soak.py [--steps 100000] [--calls 1000000] [--requests 100000] [--output FILE]

Three programs under `opentelemetry-instrument`, one after the other (`soak_load.py`). The first one runs training steps
with rollout, tool, reward, phases, metric and event. The second one makes calls of tools and models and records rewards
and metrics, each with a name that was never seen before: every bounded table is full after the first thousand. The
third one has a rollout per request of `openai` or `httpx`, whole and streamed; the transport answers at once. All write
the file store with a bound of 64 MiB, which is full after a few percent of the run.

At 60 points everything is delivered and collected, and the process is looked at. The figure is the slope over the last
half, by least squares. Its interval comes from the residuals, fewer by their correlation (`trend.py`). A slope is
within noise where the interval reaches down to zero or nearly so. For memory and objects the upper bound has a limit,
too: noise must not hide the loss of one object per step or request, or in seven calls.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from figures import finish, instrumented
from trend import slope

SAMPLES = 60
STORE_BYTES = 64 << 20
#: Per step or call: highest lower bound of the slope, and highest upper bound. An object takes 56 bytes and more.
LIMITS = {
    "steps": {"rss_bytes": (8.0, 56.0), "objects": (0.001, 0.01)},
    "calls": {"rss_bytes": (1.0, 8.0), "objects": (0.0001, 0.001)},
    "requests": {"rss_bytes": (8.0, 56.0), "objects": (0.001, 0.01)},
}
#: Share by which a call may become dearer from the middle of the run to its end.
SLOWER = 0.05


def measure(load: str, total: int) -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory() as directory:
        data, output = Path(directory) / "data", Path(directory) / "samples.json"
        settings = {"OTEL_RL_DATA_DIR": str(data), "OTEL_RL_DATA_MAX_BYTES": str(STORE_BYTES), "OTEL_RL_QUIET": "1"}
        program = Path(__file__).with_name("soak_load.py")
        instrumented(program, load, str(total), str(SAMPLES), output, folder=directory, **settings)
        return json.loads(output.read_text())


def figures_of(load: str, samples: list[dict[str, float]]) -> dict[str, Any]:
    """Slopes over the last half, per step or call."""
    half = samples[len(samples) // 2 :]
    done = [sample["done"] for sample in half]

    def trend(key: str) -> dict[str, float]:
        return slope(done, [sample[key] for sample in half])

    one = load.removesuffix("s")
    figures: dict[str, Any] = {}
    for key, (lowest, highest) in LIMITS[load].items():
        found = {name: round(value, 5) for name, value in trend(key).items()}
        figures[f"{load}: {key} per {one}"] = {**found, "judged": found["lower_95"], "limit": lowest}
        figures[f"{load}: {key} per {one} that noise could hide"] = {"value": found["upper_95"], "limit": highest}
    for key in ("descriptors", "threads"):
        most = [max(sample[key] for sample in part) for part in (samples[: len(samples) // 2], half)]
        figures[f"{load}: {key} more in the last half"] = {"value": most[1] - most[0], "limit": 0}
    seconds, typical = trend("us_per_call"), sum(sample["us_per_call"] for sample in half) / len(half)
    length = (done[-1] - done[0]) / typical
    figures[f"{load}: share by which one became dearer"] = {
        **{name: round(value * length, 4) for name, value in seconds.items()},
        "judged": seconds["lower_95"] * length,
        "limit": SLOWER,
    }
    figures[f"{load}: bytes in the store"] = {
        "value": max(sample["stored_bytes"] for sample in samples),
        "limit": STORE_BYTES + (1 << 20),  # the manifest is not counted
    }
    figures[f"{load}: MiB at the end"] = {"value": round(samples[-1]["rss_bytes"] / 2**20, 1)}
    figures[f"{load}: CPU microseconds per {one}, program's thread"] = {"value": round(typical, 1)}
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=100_000)
    options, _ = parser.parse_known_args()
    samples = {load: measure(load, getattr(options, load)) for load in LIMITS}
    figures: dict[str, Any] = {}
    for load, found in samples.items():
        figures |= figures_of(load, found)
    return finish("soak", figures, samples, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
