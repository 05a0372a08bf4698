"""CPU time and memory of the watchdog's thread, in a program that trains and in one that stands still.

    python benchmarks/hang_watchdog.py [--output FILE]

One rank over gloo, with the flight recorder. ``training``: about 40 steps a second with 20 collectives each. ``standing
still``: one step that waits. The thread reads its own clock of CPU time at each wake-up. Memory: what Python has
allocated for it, its modules included, after the last wake-up.
"""

from __future__ import annotations

import json
import sys
import tempfile

from figures import bootstrap, finish, instrumented

SECONDS = 30
PROGRAM = """
import json, sys, time, tracemalloc, otel_rl, torch, torch.distributed as dist
from otel_rl.ranks import watchdog as package

how, seconds = sys.argv[1], float(sys.argv[2])
samples, memory = [], []
make = package._make

def measured():
    before = tracemalloc.get_traced_memory()[0]
    watchdog = make()
    memory.append(tracemalloc.get_traced_memory()[0] - before)
    look = watchdog.look
    def timed():
        samples.append(time.thread_time_ns())
        return look()
    watchdog._thread._function = timed
    return watchdog

package._make = measured
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
message, end, number = torch.ones(1000), time.monotonic() + seconds, 0
tracemalloc.start()
while time.monotonic() < end:
    number += 1
    if number == 2:
        tracemalloc.stop()
    with otel_rl.step(number):
        for _ in range(20):
            dist.all_reduce(message)
        time.sleep(0.02 if how == "training" or number < 10 else seconds)
print(json.dumps({"wakeups": [after - before for before, after in zip(samples, samples[1:])], "bytes": memory[0]}))
dist.destroy_process_group()
"""


def _run(how: str, directory: str) -> dict[str, list[int]]:
    settings = {"OTEL_RL_RING": "on", "OTEL_RL_QUIET": "true", "OTEL_RL_RAISE_INTERNAL_ERRORS": "true"}
    printed = instrumented("-c", PROGRAM, how, str(SECONDS), folder=directory, **settings)
    found: dict[str, list[int]] = json.loads(printed)
    if not found["wakeups"]:
        raise SystemExit(f"{how}: the thread of the watchdog never woke")
    return found


def main() -> int:
    """Measure, print, and compare with the limit."""
    with tempfile.TemporaryDirectory() as directory:
        samples = {how: _run(how, directory) for how in ("training", "standing still")}
    figures = {}
    for how, found in samples.items():
        share = bootstrap(found["wakeups"], lambda drawn: sum(drawn) / 1e9 / SECONDS)
        figures[f"{how}: share of a core"] = {**share, "judged": share["upper_95"], "limit": 0.001}
    figures["KiB of Python memory"] = {"value": round(max(found["bytes"] for found in samples.values()) / 1024)}
    return finish("hang_watchdog", figures, samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
