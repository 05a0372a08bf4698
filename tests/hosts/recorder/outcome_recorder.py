"""pytest plugin: append the outcome of each test to the file that ``HOST_OUTCOMES`` names, one JSON object a line.

A line is written when a test begins, too: a test that ends the process stays ``unfinished``. The last line says how the
session ended and which of the modules in ``HOST_MODULES`` the process had loaded.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

_FILE = Path(os.environ["HOST_OUTCOMES"])
_outcomes: dict[str, str] = {}


def _append(line: dict[str, object]) -> None:
    with _FILE.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _outcome(report) -> str | None:
    """The word for this phase of a test; None where it decides nothing."""
    if report.failed:
        return "failed" if report.when == "call" else "error"
    if report.skipped:
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    if report.when == "call":
        return "xpassed" if hasattr(report, "wasxfail") else "passed"
    return None


def _reason(report) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr)[:2000] if report.failed else ""


def pytest_runtest_logstart(nodeid):
    _append({"test": nodeid, "outcome": "unfinished"})


def pytest_runtest_logreport(report):
    outcome = _outcome(report)
    if outcome is None or _outcomes.get(report.nodeid) == "failed":
        return
    _outcomes[report.nodeid] = outcome
    _append({"test": report.nodeid, "outcome": outcome, "reason": _reason(report)})


def pytest_collectreport(report):
    if report.failed:
        _append({"test": report.nodeid, "outcome": "error", "reason": _reason(report)})


def pytest_sessionfinish(exitstatus):
    loaded = [name for name in os.environ.get("HOST_MODULES", "").split(",") if name in sys.modules]
    _append({"exit_status": int(exitstatus), "modules": loaded})
