"""Run every benchmark one after the other and write each result to benchmarks/results.

    python benchmarks/run.py [NAME ...]          (without a name: all but the collector's and the soak)

Writes the tables of docs/performance.md and ends with a table of the figures and their limits. The exit status is 1
where one misses its limit.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import performance_page

HERE = Path(__file__).parent
RESULTS = HERE / "results"
BENCHMARKS = (
    "collective_event",
    "collective_step",
    "hang_watchdog",
    "engine_metrics",
    "health_step",
    "tracker_call",
    "hot_hooks",
    "agent_step",
    "guessed_step",
    "process_start",
    "exit_with_dead_collector",
    "openai_chat_call",
    "concurrent_rollouts",
    "grpo_step_cpu",
)


def run(name: str) -> dict[str, dict[str, object]]:
    """Run one benchmark and return its figures; the result before stays where it writes none."""
    output = RESULTS / f"{name}.json"
    print(f"+ python benchmarks/{name}.py --output benchmarks/results/{output.name}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / output.name
        command = [sys.executable, HERE / f"{name}.py", "--output", written]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        # 1 is a limit that was missed, and what Python ends with after an exception.
        if done.returncode not in (0, 1) or not written.exists():
            raise SystemExit(f"benchmark {name} failed with exit status {done.returncode} and no result")
        shutil.copyfile(written, output)
    return json.loads(output.read_text())["figures"]


def main() -> int:
    """Run those named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {', '.join(BENCHMARKS)}")
    names = parser.parse_args().names or BENCHMARKS
    RESULTS.mkdir(exist_ok=True)
    within_limits = True
    rows = []
    for name in names:
        for figure, result in run(name).items():
            limit = f">= {result['at_least']}" if "at_least" in result else result.get("limit")
            verdict = "" if limit is None else ("ok" if result["within_limit"] else "MISSED")
            within_limits &= verdict != "MISSED"
            bounds = f"{result['lower_95']} to {result['upper_95']}" if "upper_95" in result else ""
            rows.append((f"{name}: {figure}", result["value"], bounds, "" if limit is None else limit, verdict))
    performance_page.main([])
    print(f"{'figure':58} {'value':>12} {'95 % interval':>22} {'limit':>8}")
    for figure, value, bounds, limit, verdict in rows:
        print(f"{figure:58} {value!s:>12} {bounds:>22} {limit!s:>8} {verdict}")
    return 0 if within_limits else 1


if __name__ == "__main__":
    sys.exit(main())
