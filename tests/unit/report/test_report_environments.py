"""Rewards and failures by environment, of rollouts that name theirs."""

from __future__ import annotations

import re
import time

from unit.report.synthetic_run import SECOND, process

from otel_rl.report import write_report


def test_rollouts_that_failed_and_mean_rewards_are_told_by_environment(tmp_path):
    body = {
        "rl.rollout.id": ["a", "b", "c", "d"],
        "rl.environment.name": ["maths", "maths", "code", None],
        "rl.rollout.status": ["finished", "failed", "failed", "finished"],
        "rl.rollout.reward": [1.0, 0.5, None, 9.0],
    }
    writer = process(tmp_path / "run-1", 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    writer.event("rl.trajectories", 1.0, body, {"rl.trajectories.source": "rollout", "rl.trajectories.started": 4})
    writer.write()
    page = write_report(tmp_path / "run-1", tmp_path / "page.html").output.read_text(encoding="utf-8")
    (table,) = re.findall(r"<table(?:(?!</table>).)*Environment.*?</table>", page, re.DOTALL)
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)]
    cells = [[re.sub(r"<[^>]+>", "", cell) for cell in row] for row in rows if row]
    assert [row[:3] for row in cells] == [["code", "1", "1"], ["maths", "2", "1"]]
    assert cells[1][3].startswith("0.75")
