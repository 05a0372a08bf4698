"""Memory, CPU time and bytes that `otel-rl export` takes for a large run.

    python benchmarks/export_size.py [--output FILE]

The run is that of `report_size.py`: two ranks, 105 spans per step, 10,000 steps. Each export runs in a process of its
own. A trace with findings makes the report's aggregates in the same pass, which take most of its memory.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from figures import finish, measure
from report_size import write_run

FORMS = {
    "trace without findings": ("--perfetto", "trace.json", "--no-findings"),
    "trace": ("--perfetto", "trace.json"),
}


def main() -> int:
    """Measure and print."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        spans = write_run(run)
        for form, (option, name, *more) in FORMS.items():
            written = Path(folder) / name
            peak, seconds = measure("export", run, option, written, *more)
            figures[f"{form}, {spans} spans: MiB"] = {"value": round(peak, 1)}
            figures[f"{form}, {spans} spans: CPU seconds"] = {"value": round(seconds, 1)}
            figures[f"{form}, {spans} spans: MiB written"] = {"value": round(written.stat().st_size / (1 << 20))}
    return finish("export_size", figures, [], __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
