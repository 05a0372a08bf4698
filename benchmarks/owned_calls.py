"""Added CPU time of a model call over another span for it, of the client itself or of its official instrumentor.

CPU time of the whole process is taken. Each round runs the variants one right after the other, the next round in
reverse order; the figures are medians over rounds of paired differences, the bounds a bootstrap of them. The process
runs under `opentelemetry-instrument` with our distro and no endpoint, as users have it; all write into the file store.
Calls are warm: to put an instrumentor on and off has Python forget what it knows of the classes. Every sample ends with
a flush of what its calls have left for later.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

from figures import finish, ratio_of_medians, samples_of

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Shape -> variant -> one value per round.
    Samples = dict[str, dict[str, list[float]]]
    #: Shape -> a call of it.
    Shapes = dict[str, Callable[[], object]]

#: Nobody has a span; the other one has; ours adds to that.
VARIANTS = ("none", "owner", "both")


def settle() -> None:
    """Do what the calls have left for later."""
    from opentelemetry import trace

    from otel_rl.inference import measurements

    measurements.pending.record()
    trace.get_tracer_provider().force_flush()


def _seconds(call: Callable[[], object], number: int) -> float:
    for _ in range(number // 4):
        call()
    settle()
    started = time.process_time()
    for _ in range(number):
        call()
    settle()
    return (time.process_time() - started) / number


def _measure(
    shapes: dict[str, Shapes], instrumentors: dict[str, list[Any]], parts: dict[str, int], rounds: int, calls: int
) -> Samples:
    samples: Samples = {shape: {variant: [] for variant in VARIANTS} for shape in shapes["none"]}
    for round_number in range(rounds):
        for shape, values in samples.items():
            gc.collect()
            for variant in VARIANTS if round_number % 2 else VARIANTS[::-1]:
                used = instrumentors.get(variant, [])
                for instrumentor in used:
                    instrumentor.instrument(skip_dep_check=True)
                values[variant].append(_seconds(shapes[variant][shape], calls // parts.get(shape, 1)))
                for instrumentor in reversed(used):
                    instrumentor.uninstrument()
    return samples


def added_over_owner(samples: Samples, owner: str, limits: dict[str, float]) -> dict[str, Any]:
    """Ours divided by the other one's, and both by themselves."""
    found: dict[str, Any] = {}
    for shape, values in samples.items():
        theirs = [b - a for a, b in zip(values["none"], values["owner"], strict=True)]
        ours = [b - a for a, b in zip(values["owner"], values["both"], strict=True)]
        figure: dict[str, Any] = ratio_of_medians(list(zip(ours, theirs, strict=True)))
        if shape in limits:
            figure["limit"] = limits[shape]
        found[f"{shape}, ours / {owner}"] = figure
        for name, added in (("ours", ours), (owner, theirs)):
            found[f"{shape}, added by {name}, us"] = {"value": round(statistics.median(added) * 1e6, 2)}
    return found


def main(
    program: str,
    description: str,
    setup: Callable[[], tuple[dict[str, Shapes], dict[str, list[Any]]]],
    figures_of: Callable[[Samples], dict[str, Any]],
    parts: dict[str, int],
) -> int:
    """Measure in a process of its own what `setup` returns: calls by variant and shape, instrumentors by variant."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=64, help="calls of one sample; of streams there are fewer")
    parser.add_argument("--program", action="store_true", help=argparse.SUPPRESS)
    options, _ = parser.parse_known_args()
    if options.program:
        print(json.dumps(_measure(*setup(), parts, options.rounds, options.calls)))
        return 0
    samples = samples_of(program, "--program", "--rounds", str(options.rounds), "--calls", str(options.calls))
    name = program.rpartition("/")[2].removesuffix(".py")
    return finish(name, figures_of(samples), samples, description)
