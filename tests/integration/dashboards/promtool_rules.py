"""``promtool test rules`` on the generated rule files."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from dashboards.build import GENERATED
from dashboards.lib.rules import STACK

if TYPE_CHECKING:
    from pathlib import Path

    from dashboards.lib.rules import AlertRule

#: What the server says of its own address.
PROMETHEUS = "http://prometheus:9090"


@dataclass
class Promtool:
    """Runs one rule test against the generated rule files."""

    program: Path
    folder: Path
    #: Without what a test does not need, hours are evaluated in seconds.
    files: str = "*.yaml"
    #: Groups come in any order: less than the five minutes for which a recorded value counts.
    every: str = "30s"

    def test(self, series: dict[str, str], **expectations: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
        """``series`` maps a selector to promtool's value notation, one value per 15 s."""
        inputs = [{"series": selector, "values": values} for selector, values in series.items()]
        content = {
            "rule_files": [str(path) for path in sorted((GENERATED / "prometheus").glob(self.files))],
            "evaluation_interval": self.every,
            "tests": [{"interval": "15s", "input_series": inputs, "external_url": PROMETHEUS, **expectations}],
        }
        path = self.folder / "rules.test.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return subprocess.run(
            [self.program, "test", "rules", path], capture_output=True, text=True, timeout=300, check=False
        )


def links(page: str, board: str | None = None, subject: str = "run=r1") -> dict[str, str]:
    """The annotations of an alert that say where to read on."""
    runbook = {"runbook_url": f"{PROMETHEUS}/user/{page}.md"}
    return {**runbook, "dashboard": f"{STACK.grafana}/d/{board}?var-{subject}"} if board else runbook


def labels(**values: str) -> str:
    return "{" + ", ".join(f'{key}="{value}"' for key, value in values.items()) + "}"


def alert_at(time: str, rule: AlertRule, *firing: dict[str, Any]) -> dict[str, Any]:
    return {"eval_time": time, "alertname": rule.name, "exp_alerts": list(firing)}


def passed(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stdout + result.stderr
