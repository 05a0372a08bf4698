"""What every rule carries, so that whoever is woken knows what to do."""

from __future__ import annotations

import re
from pathlib import Path

import promql_parser
import pytest
import yaml
from rendered_boards import RENDERED, ROOT

from dashboards.lib.names import label_name
from dashboards.lib.rules import AlertRule
from dashboards.rules import RULE_FILES
from dashboards.rules.runs import UNDELIVERED

RULES = [rule for groups in RULE_FILES.values() for group in groups for rule in group.rules]
ALERTS = [rule for rule in RULES if isinstance(rule, AlertRule)]
SECTIONS = ["What it means", "Is it real?", "What to do", "When it resolves", "Tuning"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_parses(rule):
    promql_parser.parse(rule.expr)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_waits_has_a_severity_and_explains_itself(alert):
    assert re.fullmatch(r"\d+m", alert.wait)
    assert alert.severity in {"warning", "critical"}
    assert f"$labels.{label_name(alert.subject)}" in alert.summary
    assert "$value" in alert.description
    assert alert.annotations()["runbook_url"].endswith(f"/{alert.page or alert.name}.md")
    assert alert.board is None or alert.board in RENDERED


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_the_runbook_of_an_alert_says_all_that_is_needed(alert):
    text = (ROOT / "dashboards" / alert.runbook).read_text()
    assert text.startswith(f"# {alert.page or alert.name}\n")
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == SECTIONS


def test_no_runbook_is_left_without_its_alert():
    pages = {path.stem for path in Path(ROOT, "dashboards", "runbooks").glob("*.md")}
    assert pages == {alert.page or alert.name for alert in ALERTS}


def test_each_reason_that_an_alert_is_about_is_described():
    page = (ROOT / "docs" / "delivery.md").read_text()
    assert not [reason for reason in UNDELIVERED if f"`{reason}`" not in page]


def test_rule_names_are_unique_and_files_hold_every_rule():
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    written = []
    for path in (ROOT / "dashboards" / "generated" / "prometheus").glob("*.yaml"):
        for group in yaml.safe_load(path.read_text())["groups"]:
            written += [rule.get("record") or rule["alert"] for rule in group["rules"]]
    assert sorted(written) == sorted(names)
