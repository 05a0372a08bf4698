"""An advantage is compared with the rewards that were known when it was told, and not with what came later."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from otel_rl.report import write_report

PROGRAM = """
import sys, otel_rl

wrong = float(sys.argv[1])
for step in range(1, 5):
    made = []
    with otel_rl.step(step):
        for place in range(4):
            with otel_rl.rollout(f"{step}-{place}", group_id=step) as it:
                otel_rl.reward("judge", float(place))
            made.append(it)
        if step == 4:
            # A later reward that comes before the advantage is one of those that it is made of.
            otel_rl.flush()
            made[0].reward("late", 2.0)
        rewards = [2.0 if step == 4 else 0.0, 1.0, 2.0, 3.0]
        for it, reward in zip(made, rewards):
            it.train(reward - sum(rewards) / 4 + (wrong if step == 4 else 0), estimator="dr_grpo")
    otel_rl.flush()
    if step < 3:
        made[0].reward("late", 0.5)
        otel_rl.reward("late", 0.25, rollout=f"{step}-1")
"""


@pytest.mark.parametrize(("wrong", "differing"), [(0.0, 0), (0.3, 4)])
def test_advantages_with_rewards_after_them_are_left_out_and_counted(tmp_path, wrong, differing):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    (tmp_path / "train.py").write_text(PROGRAM)
    subprocess.run(
        [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, "train.py", str(wrong)],
        cwd=tmp_path,
        env={**kept, "OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    written = write_report(tmp_path / "store", tmp_path / "page.html")
    found = written.trajectories["advantages"]
    assert (found["checked"], found["differing"]) == (8, differing)
    codes = [one.code for one in written.overview.findings]
    assert ("advantage_differs" in codes) is bool(differing)
    assert "8 advantages left out: rewards of the group came after them." in written.output.read_text(encoding="utf-8")
