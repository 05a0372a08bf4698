"""A loss that is NaN is one fact: the rule tells of it, and no telemetry was lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from otel_rl.report import write_report

PROGRAM = """
import otel_rl

for step in range(1, 61):
    with otel_rl.step(step):
        otel_rl.metric("loss", 1.0 / step if step < 30 else float("nan"))
"""


def test_a_loss_that_is_nan_is_found_once_and_is_no_lost_telemetry(tmp_path):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    subprocess.run(
        [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**kept, "OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store"},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    codes = [one.code for one in write_report(tmp_path / "store", tmp_path / "page.html").overview.findings]
    assert codes.count("non_finite") == 1
    assert "lost_telemetry" not in codes
