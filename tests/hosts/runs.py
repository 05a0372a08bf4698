"""One run of a suite, plain or instrumented, and the evidence of which it was."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosts.suites import Suite

RECORDER = Path(__file__).with_name("recorder")
#: Loaded in every instrumented process and in no plain one.
PACK = "otel_rl"


@dataclass
class Run:
    """What a run of the suite left behind."""

    instrumented: bool
    outcomes: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    #: pytest's exit status; None where pytest did not come to its end.
    exit_status: int | None = None
    modules: list[str] = field(default_factory=list)
    seconds: float = 0.0
    output: str = ""
    #: Instrumentor -> number of processes that recorded while it was active.
    active: dict[str, int] = field(default_factory=dict)
    #: Instrumentor -> why it failed.
    failed: dict[str, str] = field(default_factory=dict)
    #: Lines of the file store.
    lines: int = 0


@dataclass(frozen=True)
class Place:
    """Where a suite runs: the environment's ``bin``, the pristine tests, and a folder that each run empties."""

    binaries: Path
    source: Path
    scratch: Path


def run(suite: Suite, place: Place, tests: Sequence[str] = (), *, instrumented: bool) -> Run:
    """Run the suite, or only ``tests`` of it, on a fresh copy that lies at the same path in both modes."""
    shutil.rmtree(place.scratch, ignore_errors=True)
    copy = place.scratch / "source"
    shutil.copytree(place.source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    chosen = place.scratch / "tests.txt"
    chosen.write_text("\n".join(tests or suite.select) + "\n")
    started = monotonic()
    result = Run(instrumented)
    with (place.scratch / "output.txt").open("wb") as output:
        _until_limit(_command(suite, place, chosen, instrumented), suite, place, output)
    result.seconds = monotonic() - started
    result.output = (place.scratch / "output.txt").read_text(errors="replace")
    _read_outcomes(place.scratch / "outcomes.jsonl", result)
    _read_store(place.scratch / "store", result)
    return result


def _command(suite: Suite, place: Place, chosen: Path, instrumented: bool) -> list[str]:
    left_out = [argument for test in suite.deselect for argument in ("--deselect", test)]
    pytest = ["python", "-m", "pytest", "-q", "-p", "outcome_recorder", *suite.arguments, *left_out, f"@{chosen}"]
    return [str(place.binaries / "opentelemetry-instrument"), *pytest] if instrumented else pytest


def variables(suite: Suite, place: Place) -> dict[str, str]:
    """The environment of both modes: the caller's without what steers Python or telemetry."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON", "PYTEST_"))}
    return kept | {
        "PATH": f"{place.binaries}{os.pathsep}{kept.get('PATH', os.defpath)}",
        "PYTHONPATH": str(RECORDER),
        "HOST_OUTCOMES": str(place.scratch / "outcomes.jsonl"),
        "HOST_MODULES": PACK,
        "OTEL_RL_DATA_DIR": str(place.scratch / "store"),
        **suite.environment,
    }


def _until_limit(command: list[str], suite: Suite, place: Place, output: IO[bytes] | int) -> None:
    """Run the command in a session of its own and end all of it at the limit, or when pytest has ended."""
    process = subprocess.Popen(
        command,
        cwd=place.scratch / "source",
        env=variables(suite, place),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(suite.limit_minutes * 60)
    finally:
        _end_group(process.pid)
        process.wait()


def _end_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _read_outcomes(file: Path, result: Run) -> None:
    lines = file.read_text().splitlines() if file.exists() else []
    for line in map(json.loads, lines):
        if "exit_status" in line:
            result.exit_status, result.modules = line["exit_status"], line["modules"]
        else:
            result.outcomes[line["test"]] = line["outcome"]
            result.reasons[line["test"]] = line.get("reason", "")


def _read_store(store: Path, result: Run) -> None:
    active: Counter[str] = Counter()
    for file in store.glob("*/*/manifest.json"):
        for name, outcome in json.loads(file.read_text())["instrumentors"].items():
            active[name] += outcome["state"] == "active"
            if outcome["state"] == "failed":
                result.failed[name] = outcome["reason"]
        for signal_file in file.parent.glob("*.jsonl"):
            result.lines += signal_file.read_bytes().count(b"\n")
    result.active = {name: number for name, number in active.items() if number}


def problems(suite: Suite, result: Run) -> list[str]:
    """What makes this run no evidence; empty where it counts."""
    mode = "instrumented" if result.instrumented else "plain"
    found = []
    if result.exit_status is None:
        found.append(f"pytest did not come to its end within {suite.limit_minutes:g} minutes, or was killed")
    if len(result.outcomes) < suite.at_least:
        found.append(f"{len(result.outcomes)} tests ran; expected: {suite.at_least} or more")
    found += _not_active(suite, result) if result.instrumented else _not_plain(result)
    return [f"{mode}: {each}" for each in found]


def _not_plain(result: Run) -> list[str]:
    return [f"{PACK} was loaded"] if result.modules or result.active else []


def _not_active(suite: Suite, result: Run) -> list[str]:
    found = [f"{name} failed: {reason}" for name, reason in result.failed.items()]
    if result.exit_status is not None and PACK not in result.modules:
        found.append(f"{PACK} was not loaded")
    found += [
        f"{name} was active in {result.active.get(name, 0)} recording processes; expected: {suite.processes} or more"
        for name in suite.instrumentors
        if result.active.get(name, 0) < suite.processes
    ]
    return [*found, *(["nothing was recorded"] if not result.lines else [])]
