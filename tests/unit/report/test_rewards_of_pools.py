"""Means of rewards whose rollouts began in the workers of pools: they are those of the process that made the calls."""

from __future__ import annotations

import pytest
from support.reward_readers import calls_of

from otel_rl.store.reader.processes import Process
from otel_rl.store.reader.records import Log


def process(pid, rank=None, host="node"):
    return Process(f"{host} {pid}", {"rank": rank, "attempt": "0", "host": host, "pid": pid})


TRAINER = process(1)
FIRST, SECOND = process(2), process(3)


def record(of, step, rewards, caller=None, group="g", restarts=0):
    """A record of rollouts of the process ``of``, in the worker of ``caller``."""
    body = {
        "rl.rollout.status": ["finished"] * len(rewards),
        "rl.rollout.reward": rewards,
        "rl.group.id": [group] * len(rewards),
    }
    where = {"rl.loop.iteration": step, "rl.trajectories.step": step, "rl.trajectories.source": "rollout"}
    if restarts:
        where["rl.trajectories.restarts"] = restarts
    if caller is not None:
        where["rl.trajectories.caller_pid"] = caller.identity("process.pid")
    return Log(of, "s", "rl.trajectories", step, 9, "INFO", body, where, "")


def begins(of):
    return Log(of, "s", "rl.run.start", 0, 9, "INFO", None, {}, "")


def curve(*logs, key="reward"):
    """Process, step and mean of each log call that has one."""
    return [(call.process.key, call.step, call.values[key]) for call in calls_of(*logs) if key in call.values]


@pytest.mark.parametrize("is_first", [True, False], ids=["caller first", "workers first"])
def test_the_workers_of_a_caller_make_one_curve_of_its_own(is_first):
    of_workers = [record(FIRST, step, [step, step], TRAINER) for step in (1, 2)]
    of_workers += [record(SECOND, step, [step + 3.0], TRAINER) for step in (1, 2)]
    logs = [begins(TRAINER), *of_workers] if is_first else [*of_workers, begins(TRAINER)]
    assert curve(*logs) == [(TRAINER.key, 1, 2.0), (TRAINER.key, 2, 3.0)]


@pytest.mark.parametrize("is_first", [True, False], ids=["caller first", "workers first"])
def test_samples_of_the_caller_and_of_its_workers_are_samples_of_one_step(is_first):
    own = [record(TRAINER, step, [0.0, 0.0]) for step in (1, 2)]
    of_workers = [record(FIRST, 1, [4.0, 4.0], TRAINER), record(FIRST, 3, [8.0], TRAINER)]
    logs = own + of_workers if is_first else of_workers + own
    assert curve(*logs) == [(TRAINER.key, 1, 2.0), (TRAINER.key, 2, 0.0), (TRAINER.key, 3, 8.0)]


def test_spread_and_groups_are_those_of_all_samples():
    logs = [begins(TRAINER), record(FIRST, 1, [1.0, 1.0], TRAINER), record(SECOND, 1, [3.0, 3.0], TRAINER)]
    [(_, _, deviation)] = curve(*logs, key="reward_std")
    assert deviation == pytest.approx((4 / 3) ** 0.5)
    assert curve(*logs, key="frac_reward_zero_std") == [(TRAINER.key, 1, 0.0)]


def test_more_steps_than_a_loop_keeps_open_have_all_their_samples():
    logs = [record(worker, step, [float(step)], TRAINER) for worker in (FIRST, SECOND) for step in range(200)]
    assert curve(*logs, begins(TRAINER)) == [(TRAINER.key, step, float(step)) for step in range(200)]


def test_steps_that_begin_again_are_kept_apart():
    logs = [record(worker, step, [reward], TRAINER, restarts=stage) for worker in (FIRST, SECOND)
            for stage, step, reward in ((0, 1, 1.0), (0, 2, 2.0), (1, 1, 5.0), (1, 2, 6.0))]  # fmt: skip
    assert [mean for _, _, mean in curve(begins(TRAINER), *logs)] == [1.0, 2.0, 5.0, 6.0]


def test_of_several_ranks_the_pool_of_the_lowest_counts():
    ranks = [process(1, rank=1), process(5, rank=0)]
    logs = [record(FIRST, 1, [7.0], ranks[0]), record(SECOND, 1, [3.0], ranks[1])]
    assert curve(*map(begins, ranks), *logs) == [(ranks[1].key, 1, 3.0)]


def test_a_process_of_the_same_number_on_another_machine_is_not_the_caller():
    other = process(1, host="other")
    assert curve(begins(other), record(FIRST, 1, [3.0], TRAINER)) == [(FIRST.key, 1, 3.0)]


def test_what_the_caller_logs_itself_wins():
    logged = Log(TRAINER, "s", "rl.step", 1, 9, "INFO", {"reward": 9.0}, {"rl.loop.iteration": 1}, "")
    assert [call.values for call in calls_of(logged, record(FIRST, 1, [3.0], TRAINER))] == [{"unscored_ratio": 0.0}]


@pytest.mark.parametrize("has_own", [True, False], ids=["own samples too", "workers only"])
def test_a_pool_made_for_steps_that_begin_again_adds_nothing_to_the_steps_before(has_own):
    stages = [(FIRST, 0, 0.0), (SECOND, 1, 1.0)]
    logs = [record(worker, step, [reward], TRAINER, restarts=stage)
            for worker, stage, reward in stages for step in (1, 2)]  # fmt: skip
    if has_own:
        logs += [record(TRAINER, step, [reward], restarts=stage) for _, stage, reward in stages for step in (1, 2)]
    assert [mean for _, _, mean in curve(begins(TRAINER), *logs)] == [0.0, 0.0, 1.0, 1.0]
