"""A rank that keeps the others waiting is named while the job runs; ranks that work alike are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import late_rank_jobs

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys, time, torch, otel_rl, torch.distributed as dist
place, length, steps = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
dist.init_process_group("gloo")
late = dist.get_rank() == 1

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, given):
        between = self.first(given)
        if place == "backward" and late:
            between.register_hook(lambda gradient: time.sleep(length / 2))
        return self.second(between)

model = torch.nn.parallel.DistributedDataParallel(Model())
for number in range(1, steps + 1):
    with otel_rl.step(number):
        with otel_rl.phase("sample"):
            time.sleep(length)
        with otel_rl.phase("reward"):
            if place == "reward" and late:
                time.sleep(length / 2)
        with otel_rl.phase("train"):
            model(torch.ones(4, 8)).sum().backward()
if place == "nowhere":
    # Calm ranks are compared rarely: the program ends when a comparison has been exported, or after a minute.
    from otel_rl.ranks.stragglers import watch
    for number in range(steps + 1, steps + 600):
        compared = torch.tensor(float(watch.latest() is not None))
        dist.all_reduce(compared)
        if compared:
            break
        with otel_rl.step(number), otel_rl.phase("sample"):
            time.sleep(length)
            dist.barrier()
dist.destroy_process_group()
"""


def _run(folder: Path, place: str) -> None:
    (folder / "train.py").write_text(PROGRAM)
    late_rank_jobs.run(folder, 2, "train.py", place, 0.1, 60)


@pytest.mark.parametrize("place", ["reward", "backward"])
def test_the_late_rank_is_named_with_phase_and_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    _run(tmp_path, place)

    [event] = [one for one in late_rank_jobs.events(tmp_path) if one["event"] == "rl.straggler"]
    assert event["rl.straggler.rank"] == "1"
    assert event["rl.phase"] == ("reward" if place == "reward" else "train")
    assert event["torch.distributed.operation"] == "all_reduce"
    # A third of the step is the delay.
    assert event["rl.straggler.lost_time"] == pytest.approx(0.05, abs=0.0075)
    assert event["rl.straggler.lost_share"] == pytest.approx(1 / 3, abs=0.05)
    shares = late_rank_jobs.gauge(tmp_path, "rl.straggler.lost_share")
    assert {point["rl.straggler.rank"] for point, value in shares if value > 0.2} == {"1"}
    assert max(value for _, value in late_rank_jobs.gauge(tmp_path, "torch.distributed.arrival.spread")) > 0.04
    [(rank, finding)] = late_rank_jobs.late_ranks(tmp_path, capsys).items()
    assert (rank, finding["ranks"]) == (1, [1])
    # Late from the first step on; before the first step that the job compared there may be none to judge.
    assert finding["onset_step"] in (None, int(event["rl.straggler.first_iteration"]))


def test_nobody_is_named_where_the_ranks_work_alike(tmp_path: Path) -> None:
    _run(tmp_path, "nowhere")

    assert not late_rank_jobs.events(tmp_path)
    assert late_rank_jobs.gauge(tmp_path, "torch.distributed.arrival.wait_share")
