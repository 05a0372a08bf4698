"""``promtool test rules`` on the generated rule files."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from dashboards.build import GENERATED
from dashboards.lib.rules import STACK

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dashboards.lib.rules import AlertRule

#: What the server says of its own address.
PROMETHEUS = "http://prometheus:9090"


@dataclass(frozen=True)
class RuleTest:
    """What the rules are to make of some series: a selector and its values in promtool's notation, one per 15 s."""

    series: dict[str, str]
    expectations: dict[str, list[dict[str, Any]]]


def rule_test(series: dict[str, str], **expectations: list[dict[str, Any]]) -> RuleTest:
    return RuleTest(series, expectations)


@dataclass
class Promtool:
    """Runs rule tests against the generated rule files."""

    program: Path
    folder: Path
    #: The files that the tests are about: without the others, hours are evaluated in seconds.
    files: str = "*.yaml"
    #: Groups come in any order: less than the five minutes for which a recorded value counts.
    every: str = "30s"

    def test(self, series: dict[str, str], **expectations: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
        return self.test_each({"series": rule_test(series, **expectations)})

    def test_each(self, cases: dict[str, RuleTest]) -> subprocess.CompletedProcess[str]:
        """All cases in one process, each by itself; what fails is printed with the name of its case."""
        content = {
            "rule_files": [str(path) for path in sorted((GENERATED / "prometheus").glob(self.files))],
            "evaluation_interval": self.every,
            "tests": [
                {
                    "name": name,
                    "interval": "15s",
                    "input_series": [{"series": selector, "values": text} for selector, text in case.series.items()],
                    "external_url": PROMETHEUS,
                    **case.expectations,
                }
                for name, case in cases.items()
            ],
        }
        path = self.folder / "rules.test.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return subprocess.run(
            [self.program, "test", "rules", path], capture_output=True, text=True, timeout=1800, check=False
        )


def links(page: str, board: str | None = None, subject: str = "run=r1") -> dict[str, str]:
    """The annotations of an alert that say where to read on."""
    runbook = {"runbook_url": f"{PROMETHEUS}/user/{page}.md"}
    return {**runbook, "dashboard": f"{STACK.grafana}/d/{board}?var-{subject}"} if board else runbook


def labels(**values: str) -> str:
    return "{" + ", ".join(f'{key}="{value}"' for key, value in values.items()) + "}"


def fires(alert: str, at: Iterable[str], not_at: Iterable[str], **who: str) -> list[dict[str, Any]]:
    """Questions of PromQL, to Prometheus' own series of alerts: whether it fires for somebody at these times."""
    query = f"count(ALERTS{labels(alertname=alert, alertstate='firing', **who)})"
    moments = [(time, [{"labels": "{}", "value": 1}]) for time in at] + [(time, []) for time in not_at]
    return [{"expr": query, "eval_time": time, "exp_samples": samples} for time, samples in moments]


def alert_at(time: str, rule: AlertRule, *firing: dict[str, Any]) -> dict[str, Any]:
    return {"eval_time": time, "alertname": rule.name, "exp_alerts": list(firing)}


def passed(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stdout + result.stderr
