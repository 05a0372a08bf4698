"""The committed files are what the sources give, and the command says so when they are not."""

from __future__ import annotations

import json
import subprocess
import sys

import yaml
from rendered_boards import ROOT

from dashboards import build
from dashboards.__main__ import main


def test_committed_files_are_what_the_sources_give():
    assert build.differences() == []


def test_two_runs_give_the_same_bytes():
    assert build.artefacts() == build.artefacts()


def test_files_are_readable_and_end_with_a_newline():
    for name, content in build.artefacts().items():
        assert content.endswith("\n")
        assert not content.endswith("\n\n")
        assert json.loads(content) if name.endswith(".json") else yaml.safe_load(content)


def test_missing_changed_and_left_over_files_are_told_apart_and_repaired(tmp_path):
    build.write(tmp_path)
    assert build.differences(tmp_path) == []
    (tmp_path / "grafana" / "otel-rl-run-overview.json").unlink()
    (tmp_path / "prometheus" / "alert_rules.yaml").write_text("groups: []\n")
    (tmp_path / "grafana" / "otel-rl-old.json").write_text("{}")
    assert build.differences(tmp_path) == [
        "grafana/otel-rl-old.json: not generated from any source",
        "grafana/otel-rl-run-overview.json: missing",
        "prometheus/alert_rules.yaml: out of date",
    ]
    build.write(tmp_path)
    assert build.differences(tmp_path) == []


def test_check_fails_and_names_the_file_that_is_out_of_date(monkeypatch, capsys):
    wanted = build.artefacts()
    monkeypatch.setattr(build, "artefacts", lambda *_: {**wanted, "grafana/otel-rl-run-overview.json": "{}\n"})
    assert main(["build", "--check"]) == 1
    assert "otel-rl-run-overview.json: out of date; run `python -m dashboards build`" in capsys.readouterr().err


def test_the_links_of_the_alerts_lead_where_the_command_says(tmp_path):
    chosen = ("--runbooks", "https://wiki.example/runbooks/", "--grafana", "https://boards.example")
    assert main(["build", "--output", str(tmp_path), *chosen]) == 0

    for file in ("alert_rules.yaml", "collector_alert_rules.yaml"):
        groups = yaml.safe_load((tmp_path / "prometheus" / file).read_text())["groups"]
        alerts = [rule for group in groups for rule in group["rules"]]
        assert alerts
        for alert in alerts:
            page = alert["alert"].removeprefix("Logged")
            assert alert["annotations"]["runbook_url"] == f"https://wiki.example/runbooks/{page}.md"
            assert alert["annotations"]["dashboard"].startswith("https://boards.example/d/otel-rl-")


def test_without_grafanalib_the_command_names_the_extra():
    code = (
        "import sys; sys.modules['grafanalib'] = None; from dashboards.__main__ import main; sys.exit(main(['build']))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 2
    assert result.stderr == "grafanalib is missing: pip install 'otel-rl[dashboards]'\n"


def test_a_metric_renamed_in_the_registry_makes_the_committed_files_out_of_date():
    code = """
from dataclasses import replace
from otel_rl.semconv import metrics
metrics.RL_TRAIN_ENTROPY = replace(metrics.RL_TRAIN_ENTROPY, name="rl.train.randomness")
from dashboards import build
print("\\n".join(build.differences()))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.splitlines() == [
        "grafana/otel-rl-run-overview.json: out of date",
        "prometheus/recording_rules.yaml: out of date",
    ]
