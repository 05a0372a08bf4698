"""Which test files run in the environments of the oldest and the newest packages."""

from __future__ import annotations

import pytest
from support import readers

REPORT = "from otel_rl.report import write_report\n"


@pytest.mark.parametrize(
    ("source", "only_reads"),
    [
        (REPORT, True),
        (REPORT + "from otel_rl.flight_recorder.ring import create\n", True),
        ("from dashboards.lib import queries\n", True),
        ("def test_x():\n    from otel_rl.cli import main\n", True),
        (REPORT + "def test_x(recorded): ...\n", False),
        (REPORT + "def recorded(): ...\ndef test_x(recorded): ...\n", True),
        (REPORT + "import otel_rl\n", False),
        (REPORT + "from otel_rl.telemetry import Scope\n", False),
        (REPORT + "from otel_rl import training\n", False),
        (REPORT + "import otel_rl.replay\n", False),
        (REPORT + "PROGRAM = ['opentelemetry-instrument', 'python']\n", False),
        ("from otel_rl.cli.doctor import examine\n", False),
        ("from otel_rl.health import live\n", False),
        ("from otel_rl.core import settings\n", False),
        ("import subprocess, sys\n", False),
    ],
)
def test_a_file_only_reads_if_all_it_imports_of_the_pack_does(tmp_path, source, only_reads):
    (tmp_path / "test_x.py").write_text(source)
    assert readers.only_reads(tmp_path / "test_x.py") is only_reads


def test_a_file_that_tests_the_command_doctor_does_not_only_read(tmp_path):
    (tmp_path / "test_cli_doctor_x.py").write_text("from otel_rl.cli import main\n")
    assert not readers.only_reads(tmp_path / "test_cli_doctor_x.py")


@pytest.mark.parametrize("source", ["import otel_rl.training.steps\n", "COMMAND = 'opentelemetry-instrument'\n"])
def test_what_a_helper_imports_or_starts_counts_for_the_test(tmp_path, monkeypatch, source):
    monkeypatch.setattr(readers, "TESTS", tmp_path)
    (tmp_path / "helper.py").write_text(source)
    (tmp_path / "test_x.py").write_text(REPORT + "from helper import steps\n")
    assert not readers.only_reads(tmp_path / "test_x.py")
