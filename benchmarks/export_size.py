"""Memory, CPU time and bytes that `otel-rl export` takes for a large run.

    python benchmarks/export_size.py [--output FILE]

The run is that of `report_size.py`: two ranks, 105 spans per step, 10,000 steps. Each export runs in a process of its
own. The trace without findings is made of a quarter of the steps too: with bounded memory the whole needs little more.
A trace with findings makes the report's aggregates in the same pass, which take most of its memory.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from figures import finish
from report_size import STEPS, measure, write_run

SMALL = {"trace without findings": ("--perfetto", "trace.json", "--no-findings")}
LARGE = {**SMALL, "trace": ("--perfetto", "trace.json"), "tables": ("--csv", "tables")}
MIB = 1024 * 1024


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else path.stat().st_size


def main() -> int:
    """Measure and print."""
    figures: dict[str, Any] = {}
    peaks = []
    for steps, forms in ((STEPS // 4, SMALL), (STEPS, LARGE)):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            spans = write_run(run, steps)
            for form, (option, name, *more) in forms.items():
                peak, seconds = measure("export", run, option, Path(folder) / name, *more)
                figures[f"{form}, {spans} spans: MiB"] = {"value": round(peak, 1)}
                figures[f"{form}, {spans} spans: CPU seconds"] = {"value": round(seconds, 1)}
                figures[f"{form}, {spans} spans: MiB written"] = {"value": round(_bytes(Path(folder) / name) / MIB)}
                if form in SMALL:
                    peaks.append(peak)
    growth = round(peaks[1] / peaks[0], 2)
    figures["trace without findings: growth of memory from a quarter to all"] = {"value": growth}
    return finish("export_size", figures, [], __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
