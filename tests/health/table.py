"""The table of all jobs: as data, and on its page."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from health.cases import ALL, TOLERANCE

#: Names the file that takes the table as JSON; `make test-health` names benchmarks/results/health.json.
VARIABLE = "OTEL_RL_HEALTH_RESULTS"
RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "health.json"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "health-proof.md"
BEGIN, END = "<!-- table: make test-health -->", "<!-- end of the table -->"


@dataclass
class Table:
    """What was found in each job."""

    sick: list[dict[str, Any]] = field(default_factory=list)
    healthy: list[dict[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def write(self) -> None:
        """Merge the rows into the file that the variable names, if it names one, and into the page."""
        if VARIABLE not in os.environ:
            return
        file = Path(os.environ[VARIABLE])
        kept = json.loads(file.read_text()) if file.exists() else {}
        is_complete = len({row["case"] for row in (*self.sick, *self.healthy)}) == len(ALL)
        seconds = round(time.monotonic() - self.began) if is_complete else kept.get("seconds", 0)
        sick, healthy = _merged(kept.get("rows", []), self.sick), _merged(kept.get("healthy_rows", []), self.healthy)
        found = results(sick, healthy, seconds)
        file.write_text(json.dumps(found, indent=2) + "\n")
        PAGE.write_text(with_table(PAGE.read_text(), found))


def _merged(kept: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All rows in the order of the cases; of jobs that were run again the new ones."""
    again = {row["case"] for row in new}
    order = [case.name for case in ALL]
    rows = [row for row in kept if row["case"] not in again] + new
    return sorted((row for row in rows if row["case"] in order), key=lambda row: order.index(row["case"]))


def results(sick: list[dict[str, Any]], healthy: list[dict[str, Any]], seconds: int) -> dict[str, Any]:
    """All rows with their sums; ``seconds`` are those of the last run of all jobs."""
    return {
        "command": "make test-health",
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "driven": len(sick),
        "detected": sum(row["detected"] for row in sick),
        "place_right": sum(row["place_is_right"] for row in sick),
        "onset_within_three_steps": sum(is_in_time(row) for row in sick),
        "healthy": len(healthy),
        "false_criticals": sum(len(row["false_criticals"]) for row in healthy),
        "false_warnings": sum(len(row["false_warnings"]) for row in healthy),
        "seconds": seconds,
        "rows": sick,
        "healthy_rows": healthy,
    }


def is_in_time(row: dict[str, Any]) -> bool:
    """True for an onset that is as near as wanted."""
    return row["onset_error"] is not None and row["onset_error"] <= TOLERANCE


def with_table(page: str, results: dict[str, Any]) -> str:
    """The page with the table of these results."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{markdown(results)}\n{END}{rest.partition(END)[2]}"


def markdown(results: dict[str, Any]) -> str:
    """The sums, the table of the driven failures, and the healthy runs."""
    return "\n".join([_sums(results), "", *_driven(results["rows"]), "", _healthy(results["healthy_rows"])])


def _sums(results: dict[str, Any]) -> str:
    return (
        f"{results['driven']} driven failures: {results['detected']} named, {results['place_right']} with the right "
        f"place, {results['onset_within_three_steps']} with an onset within three steps. {results['healthy']} healthy "
        f"runs: false criticals {results['false_criticals']}, false warnings {results['false_warnings']}. Duration of "
        f"all: {results['seconds'] / 60:.0f} minutes."
    )


def _driven(rows: list[dict[str, Any]]) -> list[str]:
    names = (
        *("driven into", "ranks", "from step", "expected", "place"),
        *("named", "onset", "error in steps", "live at step"),
    )
    lines = [f"| {' | '.join(names)} |", "|---|--:|--:|---|---|---|--:|--:|--:|"]
    for row in rows:
        cells = (
            row["case"],
            row["ranks"],
            row["step"],
            f"`{row['code']}`",
            row["place"] or "any value",
            _verdict(row),
            _or_dash(row["onset"]),
            _or_dash(row["onset_error"]),
            _or_dash(row["told_live_at_step"]),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _healthy(rows: list[dict[str, Any]]) -> str:
    return f"Healthy runs: {'; '.join(row['case'] + _alarms(row) for row in rows)}."


def _alarms(row: dict[str, Any]) -> str:
    codes = [f"`{alarm.partition(':')[0]}`" for alarm in (*row["false_criticals"], *row["false_warnings"])]
    return f" ({', '.join(codes)})" if codes else ""


def _verdict(row: dict[str, Any]) -> str:
    """Return whether the failure was named, and with the right place."""
    if not row["detected"]:
        return "**no**"
    return "yes" if row["place_is_right"] else "**wrong place**"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)
