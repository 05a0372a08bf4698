"""Comparing the report on a recorded case with the truth."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causes.recordings import OUTPUT

if TYPE_CHECKING:
    from causes.cases import Case, Truth

#: The findings that a reader looks at.
FIRST = 3
#: Steps that a finding may be wrong about the onset.
STEPS = 3
SEVERITIES = ("none", "notice", "warning", "critical")


@dataclass
class Verdict:
    """What the report says of one case."""

    case: str
    #: Place of the first finding that names cause and place, from 1; 0: none among the first three.
    found_at: int
    #: Whether that finding's onset is right; None if nothing was found, or the truth has no onset.
    onset_is_right: bool | None
    onset: int | None
    #: The worst severity of all findings and of what stands under them.
    worst: str
    #: Warnings and criticals, those under a finding too.
    alarms: list[str]
    #: Severity, onset and text of the first three findings.
    first: list[str]


def report(folder: Path, run: str) -> dict[str, Any]:
    """Write the report on a recorded case; return its findings as `otel-rl report --json` prints them."""
    command = [
        Path(sys.executable).with_name("otel-rl"),
        "report",
        folder / "otel-rl" / run,
        "--json",
        "-o",
        folder / "report.html",
    ]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    # As on the machine of the run.
    environ["OTEL_RL_RING_DIR"] = str(folder / "ring")
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240, env=environ, cwd=folder)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def judge(case: Case, folder: Path) -> Verdict:
    """Return what the report says of a recorded case."""
    findings = report(folder, case.name)["findings"]
    every = [*findings, *(below for one in findings for below in _below(one))]
    alarms = [f"{one['severity']}: {one['text']}" for one in every if one["severity"] in ("warning", "critical")]
    verdict = Verdict(
        case=case.name,
        found_at=0,
        onset_is_right=None,
        onset=case.truth.onset if case.truth else None,
        worst=max((one["severity"] for one in every), key=SEVERITIES.index, default="none"),
        alarms=alarms,
        first=[_line(one) for one in findings[:FIRST]],
    )
    if case.truth is not None:
        places = _servers((folder / OUTPUT).read_text(errors="replace"))
        for number, one in enumerate(findings[:FIRST], 1):
            if names(case.truth, one, places):
                verdict.found_at = number
                verdict.onset_is_right = _is_onset(case.truth, one["onset_step"])
                break
    return verdict


def names(truth: Truth, finding: dict[str, Any], servers: dict[str, str]) -> bool:
    """Whether a finding names cause and place."""
    said = " ".join([finding["text"], *finding.get("evidence", ()), f"[{finding.get('subject') or ''}]"])
    said += "".join(f" rank {rank}" for rank in finding.get("ranks", ()))
    place = truth.place_words
    for name, address in servers.items():
        place = place.replace(f"{{{name}}}", re.escape(address))
    return all(re.search(words, said, re.IGNORECASE) for words in (truth.cause_words, place))


def _servers(output: str) -> dict[str, str]:
    """Return the addresses that a program printed for ``{first}`` and ``{second}``; a port is enough of one."""
    return dict(re.findall(r"\b(first|second)=127\.0\.0\.1:(\d+)", output))


def _is_onset(truth: Truth, step: int | None) -> bool | None:
    if truth.onset is None:
        return None
    if step is None:
        return False
    return any(abs(step - truth.onset * counted) <= STEPS * counted for counted in truth.counted_by)


def _below(finding: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for below in finding.get("symptoms", ()) for one in (below, *_below(below))]


def _line(finding: dict[str, Any]) -> str:
    since = "" if finding["onset_step"] is None else f", step {finding['onset_step']}"
    return f"[{finding['severity']}{since}] {finding['text']}"


def table(cases: dict[str, Case], verdicts: list[Verdict]) -> str:
    """Return the truth and the first three findings of each case, as a table of Markdown, and the counts."""
    sick = [one for one in verdicts if cases[one.case].truth]
    healthy = [one for one in verdicts if not cases[one.case].truth]
    lines = ["# What the report says of jobs with a known fault", "", "Made by `make test-causes`; do not edit.", ""]
    lines += [*_counts(sick, healthy), "", "## Faults", ""]
    lines += [
        "| case | what is wrong | since | found by finding | onset | the first three findings |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_row(cases[one.case].truth, one) for one in sick]
    lines += ["", "## Healthy runs", "", "| case | worst | warnings and criticals |", "|---|---|---|"]
    lines += [f"| {one.case} | {one.worst} | {_cell(one.alarms)} |" for one in healthy]
    return "\n".join(lines) + "\n"


def _counts(sick: list[Verdict], healthy: list[Verdict]) -> list[str]:
    with_onset = [one for one in sick if one.onset is not None]
    found = [
        ("cause and place named by the first finding", sum(one.found_at == 1 for one in sick), len(sick)),
        ("by one of the first three", sum(one.found_at > 0 for one in sick), len(sick)),
        ("and its onset within three steps", sum(bool(one.onset_is_right) for one in with_onset), len(with_onset)),
        ("healthy runs with a critical", sum(one.worst == "critical" for one in healthy), len(healthy)),
        ("healthy runs with a warning", sum(one.worst == "warning" for one in healthy), len(healthy)),
    ]
    return ["| | runs | of |", "|---|---|---|", *(f"| {what} | {number} | {of} |" for what, number, of in found)]


def _row(truth: Truth | None, verdict: Verdict) -> str:
    assert truth is not None
    onset = {True: "right", False: "wrong", None: ""}[verdict.onset_is_right]
    cells = [verdict.case, truth.cause, truth.onset or "", verdict.found_at or "no", onset, _cell(verdict.first)]
    return "| " + " | ".join(str(cell).replace("\n", " ") for cell in cells) + " |"


def _cell(lines: list[str]) -> str:
    return "<br>".join(line.replace("|", "\\|") for line in lines)


def as_json(verdicts: list[Verdict]) -> str:
    """Return the verdicts for programs."""
    return json.dumps([asdict(one) for one in verdicts], indent=1) + "\n"
