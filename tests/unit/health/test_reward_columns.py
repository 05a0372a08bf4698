"""Rewards of the program's own loops as the rules get them: what counts to which step, live and from the records."""

from __future__ import annotations

import os
import threading

import pytest
from followed_rules import followed
from support.reward_readers import calls_of, log_calls, log_of, reward_means

import otel_rl
from otel_rl.api import operations
from otel_rl.health import live, reward_columns
from otel_rl.health.reward_columns import RewardSteps
from otel_rl.process import process_identity
from otel_rl.store.reader.processes import Process
from otel_rl.telemetry import Scope, deferral, lifecycle
from otel_rl.training import scalars, steps, trajectories, trajectory_shares
from otel_rl.training.results import Results
from otel_rl.training.scalars import ScalarSink, Source
from otel_rl.training.trainer_loop import TrainerLoop

_scope = Scope("test")


class FollowedHealth(live.LiveHealth):
    """Keeps what its monitors get of the rewards of each step."""

    def __init__(self):
        super().__init__(None)
        self.got = []

    def _followed(self, loop):
        followed = super()._followed(loop)
        if not hasattr(followed.monitor, "is_watched"):
            log = followed.monitor.log

            def logged(last, values, first=None):
                if values:
                    self.got.append((followed.monitor.loop, last, dict(values)))
                return log(last, values, first)

            followed.monitor.log, followed.monitor.is_watched = logged, True
        return followed


@pytest.fixture(autouse=True)
def sink(recorded, monkeypatch):
    """Sources of this test alone."""
    found = ScalarSink()
    monkeypatch.setattr(scalars, "sink", found)
    monkeypatch.setattr(operations, "sink", found)
    return found


@pytest.fixture(autouse=True)
def health(recorded, sink, monkeypatch):
    trajectories._forget()
    trajectory_shares.forget()
    found = FollowedHealth()
    monkeypatch.setattr(live, "scope", Scope("health_of_rewards"))
    monkeypatch.setattr(trajectories.listeners, "callbacks", [found.rows_recorded])
    with followed(found, sink):
        yield found
    trajectories._forget()


@pytest.fixture
def judged(recorded, health):
    """Returns step -> means of its rewards, which are the same live and from the records."""

    def read():
        steps.finish()
        deferral.drain_all()
        trajectories.record()
        means = {step: values for _, step, values in health.got}
        assert reward_means(recorded) == {step: pytest.approx(values, rel=1e-12) for step, values in means.items()}
        return means

    return read


def sampled(*groups, name="exact", iteration=None):
    """One rollout per score, by group."""
    for number, scores in enumerate(groups):
        for score in scores:
            with otel_rl.rollout(group_id=number, iteration=iteration):
                otel_rl.reward(name, score)


def test_a_step_has_the_means_of_all_its_samples_under_the_keys_of_trainers(recorded, judged):
    with otel_rl.step(3):
        for group, scores in enumerate(((0.0, 1.0), (1.0, 1.0))):
            for score in scores:
                with otel_rl.rollout(group_id=group):
                    otel_rl.reward("exact", score)
                    otel_rl.reward("form", 0.5)

    assert judged() == {
        3: {
            "rewards/exact/mean": 0.75,
            "rewards/form/mean": 0.5,
            "reward": 1.25,
            "reward_std": 0.5,
            "frac_reward_zero_std": 0.5,
            "unscored_ratio": 0.0,
        }
    }
    assert recorded.events("rl.step") == []


def test_the_record_has_the_time_of_the_end_of_its_step(recorded, monkeypatch):
    ends = []
    listener = lambda _, __, end_time: ends.append(end_time)  # noqa: E731 - one line
    steps.listeners.add(listener)
    try:
        with otel_rl.step(1):
            sampled([1.0, 0.0])
    finally:
        steps.listeners.remove(listener)

    assert [record.timestamp for record in recorded.events("rl.trajectories")] == ends


def test_rewards_of_a_step_in_which_no_rollout_ends_count_to_it(recorded, judged):
    for step in range(1, 7):
        with otel_rl.step(step):
            if step % 2:
                sampled([1.0, 0.0], iteration=step + 1)

    assert {step: means["reward"] for step, means in judged().items() if means} == {2: 0.5, 4: 0.5, 6: 0.5}


def test_the_report_takes_the_rewards_of_the_lowest_rank(recorded):
    with otel_rl.step(1):
        sampled([1.0, 0.0])
    [record] = recorded.events("rl.trajectories")
    ranks = [Process(f"rank {rank}", {"rank": rank, "attempt": "0"}) for rank in (0, 1)]
    assert [call.process.rank for call in calls_of(*(log_of(record, rank) for rank in ranks))] == [0]


def test_an_export_in_the_middle_of_a_step_changes_nothing(recorded, health, judged):
    with otel_rl.step(1):
        for score in (1.0, 1.0, 0.0, 0.0, 0.0, 0.0):
            sampled([score])
            deferral.drain_all()
            trajectories.record()
            assert health.got == []
    with otel_rl.step(2):
        sampled([1.0])

    means = judged()
    assert means[1]["reward"] == pytest.approx(1 / 3)
    assert means[2] == {"rewards/exact/mean": 1.0, "reward": 1.0, "unscored_ratio": 0.0}


def test_a_step_whose_rows_do_not_wait_for_its_end_counts_them_all(recorded, judged, monkeypatch):
    monkeypatch.setattr(trajectories, "_is_crowded", lambda: True)
    with otel_rl.step(1):
        sampled([1.0, 0.0], [0.0])
        trajectories.record()
        sampled([0.0])

    assert len(recorded.events("rl.trajectories")) > 1
    assert judged()[1]["reward"] == 0.25


def test_what_a_trainer_or_tracker_logs_itself_wins(sink, recorded, health):
    for number in (1, 2):
        with otel_rl.step(number):
            sampled([0.0, 1.0])
            sink.log(_scope, Source.WANDB, number, {"reward": 9.0})
            otel_rl.metric("reward_std", 8.0)

    assert [values for _, step, values in health.got if step == 2] == [
        {"reward": 9.0},
        {"reward_std": 8.0},
        {"rewards/exact/mean": 0.5, "frac_reward_zero_std": 0.0, "unscored_ratio": 0.0},
    ]
    [first, second] = [call.values for call in log_calls(recorded)]
    assert first == second == {"rewards/exact/mean": 0.5, "frac_reward_zero_std": 0.0, "unscored_ratio": 0.0}


def test_the_loop_of_a_trainer_gets_none(recorded, judged):
    loop = TrainerLoop()
    loop.begin(1, _scope)
    sampled([0.0, 1.0])
    loop.finish()

    assert judged() == {}


def test_samples_outside_of_all_steps_are_left_out(judged):
    sampled([1.0, 1.0])
    sampled([1.0], iteration=1)
    with otel_rl.step(1):
        sampled([0.0, 0.5])
    sampled([1.0, 1.0])

    assert judged()[1]["reward"] == 0.25


def test_scores_outside_of_all_rollouts_are_in_no_mean(judged):
    with otel_rl.step(1):
        sampled([0.0, 1.0])
        otel_rl.reward("exact", 1.0)
        otel_rl.reward_function("judge")(lambda: [1.0, 0.0])()
    with otel_rl.step(2):
        otel_rl.reward("exact", 1.0)

    means = judged()
    assert means.keys() == {1}
    assert (means[1]["reward"], means[1]["rewards/exact/mean"], "rewards/judge/mean" in means[1]) == (0.5, 0.5, False)


def test_rollouts_that_failed_or_are_not_used_are_no_samples(judged):
    with otel_rl.step(1):
        sampled([0.0, 1.0])
        with otel_rl.rollout() as rollout:
            otel_rl.reward("exact", 100.0)
            rollout.discard("too old")
        failed = otel_rl.rollout()
        failed.__enter__()
        otel_rl.reward("exact", 100.0)
        failed.__exit__(ValueError, ValueError(), None)
        with otel_rl.rollout():
            pass

    assert judged()[1]["rewards/exact/mean"] == 0.5


def test_a_rollout_counts_to_the_step_that_it_names_or_else_to_the_one_in_which_it_ends(judged):
    late = otel_rl.rollout()
    with otel_rl.step(1):
        late.__enter__()
        otel_rl.reward("exact", 1.0)
        sampled([0.25], iteration=2)
    with otel_rl.step(2):
        late.__exit__(None, None, None)

    rewards = {"rewards/exact/mean": 0.625, "reward": 0.625, "reward_std": pytest.approx(0.53033)}
    assert judged() == {2: {**rewards, "unscored_ratio": 0.0}}


def test_rows_that_come_after_the_end_of_their_step_are_left_out():
    body = {"rl.rollout.status": ["finished"], "rl.rollout.reward": [1.0]}
    rewards = RewardSteps()
    assert rewards.end(1) == {}
    rewards.add(body, 1, 1)
    rewards.add(body, 1, 2)
    assert rewards.end(2) == {"reward": 1.0, "unscored_ratio": 0.0}
    assert rewards._steps == {}


def test_an_evaluation_has_a_mean_of_its_own(judged):
    with otel_rl.step(1):
        sampled([0.0, 1.0])
        with otel_rl.phase("evaluate"):
            sampled([1.0, 1.0, 0.25])
    with otel_rl.step(2), otel_rl.phase("evaluate"):
        sampled([1.0, 1.0, 0.25])

    means = judged()
    assert (means[1]["reward"], means[1]["eval_reward"]) == (0.5, 0.75)
    assert means[2] == {"eval_reward": 0.75}


def test_equal_scores_give_the_same_number_to_the_last_digit_whatever_their_number(judged):
    for number in (1, 2, 3):
        with otel_rl.step(number):
            sampled([0.1] * (3 * number), [0.1] * 70)

    assert {(step["reward"], step["reward_std"], step["frac_reward_zero_std"]) for step in judged().values()} == {
        (0.1, 0.0, 1.0)
    }


def test_a_group_of_one_sample_has_nothing_to_compare(judged):
    with otel_rl.step(1):
        sampled([0.0], [1.0])

    assert judged()[1].keys() == {"rewards/exact/mean", "reward", "reward_std", "unscored_ratio"}


@pytest.mark.parametrize("score", [float("nan"), float("inf"), None])
def test_samples_without_a_finite_score_have_a_share(judged, score):
    with otel_rl.step(1):
        sampled([1.0, 0.0, 1.0, score])
        with otel_rl.phase("evaluate"):
            sampled([score])
    with otel_rl.step(2):
        sampled([score, score])

    means = judged()
    assert [means[step]["unscored_ratio"] for step in (1, 2)] == [0.25, 1.0]
    assert means[1]["reward"] == pytest.approx(2 / 3)
    assert "reward" not in means[2]


def test_a_loop_that_scores_its_samples_elsewhere_has_no_share_of_unscored_ones(judged):
    with otel_rl.step(1):
        for _ in range(4):
            with otel_rl.rollout(group_id=1):
                pass

    assert judged().get(1, {}) == {}


def test_a_loop_whose_scores_come_later_has_no_share_of_unscored_ones_while_it_runs(health):
    with otel_rl.step(1):
        sampled([1.0])
        with otel_rl.rollout() as waits:
            pass
    with otel_rl.step(2):
        waits.reward("judge", 1.0)
        sampled([1.0])
        with otel_rl.rollout():
            pass

    shares = [values.get("unscored_ratio") for _, _, values in health.got]
    assert shares == [0.5, None]


def test_only_the_process_that_leads_judges(health, monkeypatch):
    monkeypatch.setattr(
        process_identity, "_current", process_identity.ProcessIdentity(id="run", rank=1, world_size=2, leads=False)
    )
    with otel_rl.step(1):
        sampled([0.0, 1.0])

    assert health.got == []


def test_two_loops_are_kept_apart(recorded, health):
    with otel_rl.step(1, loop="actor"):
        sampled([1.0])
        with otel_rl.step(1, loop="critic"):
            sampled([0.0])
        sampled([1.0])

    assert [(loop, values["reward"]) for loop, _, values in health.got] == [("critic", 0.0), ("actor", 1.0)]
    assert {(call.loop, call.values["reward"]) for call in log_calls(recorded)} == {
        ("critic", 0.0),
        ("actor", 1.0),
    }


def test_steps_that_begin_again_begin_with_no_samples(health):
    with otel_rl.step(1):
        sampled([0.0], iteration=2)
    with otel_rl.step(1):
        sampled([0.5])
    with otel_rl.step(2):
        sampled([1.0])

    assert [(step, values["reward"]) for _, step, values in health.got] == [(1, 0.5), (2, 1.0)]


def test_samples_of_many_threads_all_count(judged):
    def samples():
        for _ in range(200):
            sampled([1.0, 0.0])

    with otel_rl.step(1):
        threads = [threading.Thread(target=samples) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert judged()[1]["rewards/exact/mean"] == 0.5


def test_a_step_with_more_rows_than_a_record_has_room_for_counts_them_all(recorded, judged):
    with otel_rl.step(1):
        sampled([1.0] * 300, [0.0] * 900)

    assert len(recorded.events("rl.trajectories")) == 3
    assert (judged()[1]["reward"], judged()[1]["frac_reward_zero_std"]) == (0.25, 1.0)


def test_what_a_loop_keeps_is_bounded():
    names = [f"score {number}" for number in range(100)]
    body = {"rl.rollout.status": ["finished"], "rl.reward.names": names, "rl.reward.scores": [[1.0]] * 100}
    rewards = RewardSteps()
    for number in range(reward_columns.MAXIMUM_STEPS + 10):
        rewards.add(body, 2 + number, 1)

    assert len(rewards._steps) == reward_columns.MAXIMUM_STEPS
    assert len(rewards.end(next(iter(rewards._steps)))) == reward_columns.MAXIMUM_REWARDS


def test_groups_beyond_the_limit_do_not_count_to_the_share(monkeypatch):
    monkeypatch.setattr(reward_columns, "MAXIMUM_GROUPS", 2)
    groups, rewards = "aabbccdd", [0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    steps_of = RewardSteps()
    steps_of.add({"rl.rollout.status": ["finished"] * 8, "rl.rollout.reward": rewards, "rl.group.id": [*groups]}, 1, 1)
    means = steps_of.end(1)
    assert (means["frac_reward_zero_std"], means["reward"]) == (0.0, 0.75)


@pytest.mark.parametrize(
    "body",
    [
        {"rl.rollout.status": "finished"},
        {"rl.rollout.status": ["finished"], "rl.rollout.reward": [True]},
        {"rl.rollout.status": ["finished"], "rl.rollout.reward": ["1"], "rl.rollout.success": [1]},
        {"rl.rollout.status": ["finished"] * 2, "rl.rollout.reward": [float("nan")], "rl.group.id": [None]},
        {"rl.rollout.status": ["finished"], "rl.reward.names": ["f"], "rl.reward.scores": [None]},
        {"rl.rollout.status": [None], "rl.rollout.reward": [1.0]},
    ],
)
def test_of_a_record_in_another_form_nothing_counts(body):
    rewards = RewardSteps()
    rewards.add(body, None, 1)
    assert rewards.end(1) == {}


def test_a_forked_child_has_none_of_its_parents_samples(health):
    with otel_rl.step(1):
        sampled([1.0], iteration=2)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                lifecycle.run_after_fork_callbacks()
                health.forked()
                status = len(trajectories._waiting) + len(health._loops)
            finally:
                os._exit(status)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_program_that_only_gives_rewards_has_them_in_its_result(recorded, judged, monkeypatch):
    results = Results()
    monkeypatch.setattr(scalars.sink, "results", results)
    for number, score in enumerate((0.5, 1.0, 0.25), 1):
        with otel_rl.step(number):
            sampled((score, score))
    judged()

    [(key, result)] = results.items()
    assert (key, result.last, result.last_step, result.best, result.best_step) == ("reward", 0.25, 3, 1.0, 2)


def test_a_reward_that_the_program_logs_is_the_one_in_its_result(recorded, health, monkeypatch):
    results = Results()
    monkeypatch.setattr(scalars.sink, "results", results)
    with otel_rl.step(1):
        sampled((1.0, 1.0))
        otel_rl.metric("reward", 0.125)
    steps.finish()
    deferral.drain_all()

    [(key, result)] = results.items()
    assert (key, result.last) == ("reward", 0.125)
