"""CPU time and memory that `otel-rl runs` takes for a folder with 5,000 runs.

    python benchmarks/run_list.py [--output FILE]

One run of 200 steps is recorded. The others are copies of it under other ids, with their own manifests and with links
to its files. All are listed, and the newest 50, first without summaries, then with those that `otel-rl report` leaves.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from figures import BIN, finish, instrumented, measure

RUNS = 5000
SECOND = 1_000_000_000
PROGRAM = """
import otel_rl
for number in range(1, 201):
    with otel_rl.step(number):
        otel_rl.metric("reward", number / 200)
"""


def _recorded(folder: Path) -> Path:
    """Record a run with a report; its folder."""
    settings = {"OTEL_RL_DATA_DIR": str(folder), "OTEL_RL_RUN_ID": "template", "OTEL_RL_QUIET": "true"}
    instrumented("-c", PROGRAM, folder=folder.parent, **settings)
    subprocess.run([BIN / "otel-rl", "report", folder], check=True, capture_output=True)
    return folder / "template"


def _copy(template: Path, folder: Path, number: int) -> None:
    [process] = (path for path in template.iterdir() if path.is_dir())
    place = folder / f"run-{number:05d}" / process.name
    place.mkdir(parents=True)
    for file in process.iterdir():
        if file.name != "manifest.json":
            os.link(file, place / file.name)
    manifest = json.loads((process / "manifest.json").read_text())
    moments = {key: manifest[key] + number * SECOND for key in ("started_unix_nano", "ended_unix_nano")}
    (place / "manifest.json").write_text(json.dumps({**manifest, **moments, "run_id": place.parent.name}))


def _summarise(template: Path, folder: Path, number: int) -> None:
    summary = json.loads((template / "summary.json").read_text())
    name = f"run-{number:05d}"
    summary["run"]["id"] = name
    for key in ("started_unix_nano", "latest_start_unix_nano", "ended_unix_nano", "last_sign_unix_nano"):
        summary["end"][key] += number * SECOND
    (folder / name / "summary.json").write_text(json.dumps(summary))


def main() -> int:
    """Measure and print."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "runs"
        template = _recorded(Path(name) / "recorded")
        for number in range(RUNS):
            _copy(template, folder, number)
        for state in ("without summaries", "with summaries"):
            for what, options in (("all", ("--limit", "0")), ("newest 50", ())):
                peak, cpu = measure("runs", folder, *options)
                title = f"{RUNS} runs {state}, {what}"
                figures[f"{title}: CPU seconds"] = {"value": round(cpu, 2)}
                figures[f"{title}: MiB"] = {"value": round(peak, 1)}
            for number in range(RUNS):
                _summarise(template, folder, number)
        shutil.rmtree(folder)
    return finish("run_list", figures, [], __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
