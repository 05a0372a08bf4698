"""The table of a run: one line per scenario, what was sent, lost and doubled."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

VARIABLE = "OTEL_RL_FAULTS_RESULTS"
"""A file that takes the table as JSON; `make test-faults` names benchmarks/results/collector_faults.json."""

PAGE = Path(__file__).resolve().parents[2] / "docs" / "collector-durability.md"
COLUMNS = ("scenario", "acknowledged", "spans/s", "lost", "duplicates", "split traces", "remarks")


@dataclass
class Table:
    """What the scenarios of one run measured."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, scenario: str, account: dict[str, Any], **remarks: Any) -> None:
        """Enter the account of a scenario; remarks are what only this scenario measures."""
        self.rows.append(
            {
                "scenario": scenario,
                "acknowledged": account["acked"],
                "spans_per_second": round(account["spans_per_second"]),
                "lost": account["lost"],
                "duplicates": account["duplicates"],
                "split_traces": account["split_traces"],
                "retried_requests": account["retries"],
                "remarks": remarks,
            }
        )

    def write(self) -> None:
        """Merge the rows into the file that the variable names, if it names one, and into the page that shows them."""
        if not self.rows or VARIABLE not in os.environ:
            return
        file = Path(os.environ[VARIABLE])
        kept = json.loads(file.read_text())["rows"] if file.exists() else []
        new = {row["scenario"] for row in self.rows}
        rows = [*(row for row in kept if row["scenario"] not in new), *self.rows]
        rows.sort(key=lambda row: str(row["scenario"]))
        machine = {"cores": os.cpu_count(), "python": platform.python_version()}
        file.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")
        if kept:
            PAGE.write_text(PAGE.read_text().replace(markdown(kept), markdown(rows)))

    def markdown(self) -> str:
        """Return the rows as a Markdown table."""
        return markdown(asdict(self)["rows"])


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return rows as a Markdown table."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|--:|--:|--:|--:|--:|---|"]
    for row in rows:
        remarks = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in row["remarks"].items())
        numbers = (row[key] for key in ("acknowledged", "spans_per_second", "lost", "duplicates", "split_traces"))
        lines.append(f"| {row['scenario']} | " + " | ".join(f"{number:,}" for number in numbers) + f" | {remarks} |")
    return "\n".join(lines)
