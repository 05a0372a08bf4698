"""Running a job of :mod:`cases`, and judging what the report and the events say of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from otel_rl.store.reader import Log, Reader, find_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from health.cases import Case, Expected

SCRIPTS = Path(sys.executable).parent
PROGRAMS = Path(__file__).parent
#: Folders that the programs import from.
IMPORTED = Path(__file__).parents[2] / "examples", Path(__file__).parents[1]
TIMEOUT = 240
#: The log of the job, in its folder.
OUTPUT = "output.txt"
#: The report on it.
PAGE = "report.html"


def build_model(directory: Path) -> Path:
    """Train the model that the jobs of TRL begin with."""
    command = [sys.executable, PROGRAMS / "answering_model.py", directory]
    subprocess.run(command, env=_environ(directory.parent), check=True, capture_output=True, timeout=TIMEOUT)
    return directory


def run(case: Case, folder: Path, model: Path) -> list[dict[str, Any]]:
    """Run the job in ``folder``; return its rows of the table."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(case.plan))
    with (folder / OUTPUT).open("wb") as output:
        job = subprocess.Popen(
            _command(case, model),
            cwd=folder,
            env={**_environ(folder), "OTEL_RL_RUN_ID": "run", **case.environ},
            stdout=output,
            stderr=output,
        )
        try:
            if case.hangs:
                _await_hang(folder, job, case.ranks)
            elif job.wait(TIMEOUT) and not _is_killed(case):
                raise RuntimeError((folder / OUTPUT).read_text(errors="replace")[-4000:])
        finally:
            job.terminate()
            job.wait(TIMEOUT)
    found, records = write_report(folder, folder / PAGE), list(_logs(folder))
    if not case.expected:
        return [_healthy(case, found, records)]
    return [_sick(case, expected, found, records) for expected in case.expected]


def _environ(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON", "OPENAI_"))}
    ours = {"PYTHONPATH": os.pathsep.join(map(str, IMPORTED)), "OTEL_RL_RING_DIR": str(folder)}
    return {**kept, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **ours}


def _command(case: Case, model: Path) -> list[Any]:
    launcher: list[Any] = [sys.executable]
    if case.ranks > 1:
        launcher = [SCRIPTS / "torchrun", "--standalone", f"--nproc-per-node={case.ranks}"]
    return [SCRIPTS / "opentelemetry-instrument", *launcher, PROGRAMS / case.program, "plan.json", model]


def _is_killed(case: Case) -> bool:
    return "kill" in case.plan.get("change", {})


def _await_hang(folder: Path, job: subprocess.Popen[bytes], ranks: int) -> None:
    """Wait until each rank has reported the hang."""
    deadline = time.monotonic() + TIMEOUT
    while _hangs(folder) < ranks:
        if job.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError((folder / OUTPUT).read_text(errors="replace")[-4000:])
        time.sleep(0.2)


def _hangs(folder: Path) -> int:
    return sum(
        '"eventName":"rl.hang"' in line.replace(" ", "")
        for file in (folder / "otel-rl").glob("*/*/logs*.jsonl")
        for line in file.read_text().splitlines()
    )


def write_report(folder: Path, page: Path) -> dict[str, Any]:
    """Write the report on the job of this folder; return its findings."""
    command = [SCRIPTS / "otel-rl", "report", folder / "otel-rl", "--json", "-o", page]
    done = subprocess.run(
        command, cwd=folder, env=_environ(folder), capture_output=True, text=True, check=True, timeout=TIMEOUT
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _logs(folder: Path) -> Iterator[Log]:
    records = Reader(find_run(folder / "otel-rl", None)).records()
    return (one for one in records if isinstance(one, Log))


# -- judgement ---------------------------------------------------------------------------------------------------------


def _grave(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in found["findings"] if one["severity"] != "notice"]


def _chain(finding: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield finding
    for symptom in finding["symptoms"]:
        yield from _chain(symptom)


def _sick(case: Case, expected: Expected, found: dict[str, Any], records: list[Log]) -> dict[str, Any]:
    findings = _grave(found)
    # A rule stands below the change that is its cause.
    whole, mine = next(
        ((one, part) for one in findings for part in _chain(one) if part["code"] == expected.code), (None, None)
    )
    began = expected.onset or _halved(records, expected.halves)
    told = [one for one in _alarms(records) if one["rl.health.code"] == expected.code]
    return {
        "case": case.name,
        "ranks": case.ranks,
        "steps": case.plan["steps"],
        "code": expected.code,
        "place": expected.place,
        "step": began,
        "detected": mine is not None,
        "place_is_right": mine is not None and _is_place(expected, mine),
        "onset": mine["onset_step"] if mine else None,
        "onset_error": abs(mine["onset_step"] - began) if mine and mine["onset_step"] is not None else None,
        "severity": mine["severity"] if mine else None,
        "is_first": bool(mine) and findings[0] is whole,
        "told_live_at_step": told[0]["rl.loop.iteration"] if told else None,
        "text": mine["text"] if mine else None,
        "beside": [one["code"] for one in findings if one is not whole],
        "miss": case.miss,
    }


def _halved(records: list[Log], key: str) -> int:
    """The step from which on a value is below half of that of the first five steps."""
    steps = [
        (one.attributes["rl.loop.iteration"], one.body[key])
        for one in records
        if one.event == "rl.step" and isinstance(one.body, dict) and key in one.body
    ]
    start = median(value for _, value in steps[:5])
    return next(step for place, (step, _) in enumerate(steps) if all(value < start / 2 for _, value in steps[place:]))


def _is_place(expected: Expected, one: dict[str, Any]) -> bool:
    return (
        expected.subject in ("", one["subject"])
        and (expected.rank is None or one["ranks"] == [expected.rank])
        and expected.words in one["text"]
    )


def _alarms(records: list[Log]) -> list[dict[str, Any]]:
    """What the health rules told while the job ran."""
    changes = [one.attributes for one in records if one.event == "rl.health.changed"]
    return [one for one in changes if one["rl.health.state"] in ("warning", "critical")]


def _healthy(case: Case, found: dict[str, Any], records: list[Log]) -> dict[str, Any]:
    """Each false alarm counts once, whether the report or an event tells it."""
    alarms = {one["code"]: (one["severity"], one["text"]) for one in _grave(found)}
    for event in _alarms(records):
        code, state = event["rl.health.code"], event["rl.health.state"]
        if alarms.get(code, ("",))[0] != "critical":
            alarms[code] = (state, event["rl.health.evidence"])
    return {
        "case": case.name,
        "ranks": case.ranks,
        "steps": case.plan["steps"],
        "false_criticals": sorted(f"{code}: {text}" for code, (state, text) in alarms.items() if state == "critical"),
        "false_warnings": sorted(f"{code}: {text}" for code, (state, text) in alarms.items() if state == "warning"),
        "checked": len(found["checked"]),
    }
