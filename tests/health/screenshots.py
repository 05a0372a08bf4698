"""The first screen of the report on each job: `PYTHONPATH=tests python tests/health/screenshots.py FOLDER [CASE ...]`.

CASE is a name of :mod:`health.cases`; without one, all driven failures are run. FOLDER gets the runs, the reports and
the pictures. A job whose run is there is not run again; its report is made anew. Needs chromium.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from health import cases, runs
from integration.report.browser import EXECUTABLE

WIDTH, HEIGHT = 1280, 800


def main(folder: Path, names: list[str]) -> None:
    if EXECUTABLE is None:
        sys.exit("no Chromium on PATH")
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "model"
    if not model.exists():
        runs.build_model(model)
    for case in cases.ALL:
        if case.name in names or (not names and case.expected):
            print(screenshot(EXECUTABLE, case, folder, model), flush=True)


def screenshot(browser: str, case: cases.Case, folder: Path, model: Path) -> Path:
    """Run the job where it has not run, write its report anew, and take its picture."""
    job = folder / re.sub(r"\W+", "-", case.name)
    if not (job / "otel-rl").exists():
        runs.run(case, job, model)
    page, picture = job.with_suffix(".html"), job.with_suffix(".png")
    runs.write_report(job, page)
    subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            f"--window-size={WIDTH},{HEIGHT}",
            f"--screenshot={picture}",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=runs.TIMEOUT,
    )
    return picture


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
