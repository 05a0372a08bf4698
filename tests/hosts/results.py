"""The table of results: one row per suite, kept as JSON and shown on a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hosts.comparison import counts

if TYPE_CHECKING:
    from hosts.comparison import Difference, Verdict
    from hosts.runs import Run
    from hosts.suites import Suite

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "benchmarks" / "results" / "host_suites.json"
PAGE = ROOT / "docs" / "host-suites.md"
COLUMNS = ("suite", "version", "tests", "plain", "instrumented", "new", "known", "unsettled")


def row(suite: Suite, plain: Run, instrumented: Run, verdict: Verdict) -> dict[str, Any]:
    """What the table keeps of a comparison."""
    return {
        "suite": suite.name,
        "version": suite.version,
        "tests": len(plain.outcomes),
        "plain": counts(plain.outcomes),
        "instrumented": counts(instrumented.outcomes),
        "recording_processes": {name: instrumented.active[name] for name in suite.instrumentors},
        "new": _tests(verdict.new),
        "known": _tests(verdict.known),
        "unsettled": _tests(verdict.unsettled),
    }


def _tests(found: list[Difference]) -> list[dict[str, Any]]:
    return [each._asdict() for each in found]


def enter(new: dict[str, Any]) -> None:
    """Put a row in the place of the suite's former one, in the file and on the page."""
    rows = [each for each in read() if each["suite"] != new["suite"]]
    rows = sorted([*rows, new], key=lambda each: each["suite"])
    before = markdown(read())
    FILE.write_text(json.dumps({"rows": rows}, indent=2) + "\n")
    PAGE.write_text(PAGE.read_text().replace(before, markdown(rows)))


def read() -> list[dict[str, Any]]:
    """The rows of the last runs."""
    return json.loads(FILE.read_text())["rows"] if FILE.exists() else []


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table, and below it each test that differed unexpectedly."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(_cells(each)) + " |" for each in rows]
    for each in rows:
        lines += _differing(each)
    return "\n".join(lines) + "\n"


def _cells(each: dict[str, Any]) -> list[str]:
    numbers = [str(len(each[kind])) for kind in ("new", "known", "unsettled")]
    outcomes = [_words(each[mode]) for mode in ("plain", "instrumented")]
    return [each["suite"], each["version"], str(each["tests"]), *outcomes, *numbers]


def _words(outcomes: dict[str, int]) -> str:
    return ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())


def _differing(each: dict[str, Any]) -> list[str]:
    # Known ones stand in suites.toml, with their reasons.
    differing = [(kind, test) for kind in ("new", "unsettled") for test in each[kind]]
    if not differing:
        return []
    lines = ["", f"Differing tests of {each['suite']}:", ""]
    return lines + [
        f"- {kind}: `{test['test']}`, {test['plain']} plain, {test['instrumented']} instrumented,"
        f" again in {test['seen_again']} of 3 reruns"
        for kind, test in differing
    ]
