"""Means of the scores that a program records in its own steps: what counts to which step, and under which keys."""

from __future__ import annotations

import os
import signal
import threading

import pytest

import otel_rl
from otel_rl.api import operations
from otel_rl.process import process_identity
from otel_rl.telemetry import Scope, deferral, lifecycle
from otel_rl.training import reward_means, scalars, steps, trajectories
from otel_rl.training.scalars import ScalarSink, Source
from otel_rl.training.trainer_loop import TrainerLoop

_scope = Scope("test")


@pytest.fixture(autouse=True)
def sink(recorded, monkeypatch):
    """Sources of this test alone."""
    found = ScalarSink()
    monkeypatch.setattr(scalars, "sink", found)
    for module in (operations, reward_means):
        monkeypatch.setattr(module, "sink", found)
    reward_means._open.clear()
    trajectories._forget()
    yield found
    steps.finish()
    reward_means._open.clear()
    trajectories._forget()


def sampled(*groups, name="exact", iteration=None):
    """One rollout per score, by group."""
    for number, scores in enumerate(groups):
        for score in scores:
            with otel_rl.rollout(group_id=number, iteration=iteration):
                otel_rl.reward(name, score)


def logged(recorded):
    """Step -> what was logged of it, each key once."""
    found = {}
    for event in recorded.events("rl.step"):
        of_step = found.setdefault(event.attributes["rl.loop.iteration"], {})
        assert of_step.keys().isdisjoint(event.body)
        of_step.update(event.body)
    return found


def test_a_step_logs_the_means_of_all_its_samples_under_the_keys_of_trainers(recordings):
    with otel_rl.step(3):
        for group, scores in enumerate(((0.0, 1.0), (1.0, 1.0))):
            for score in scores:
                with otel_rl.rollout(group_id=group):
                    otel_rl.reward("exact", score)
                    otel_rl.reward("form", 0.5)

    [event] = recordings.events("rl.step")
    assert event.body == {
        "rewards/exact/mean": 0.75,
        "rewards/form/mean": 0.5,
        "reward": 1.25,
        "reward_std": 0.5,
        "frac_reward_zero_std": 0.5,
    }
    assert event.attributes["rl.loop.iteration"] == 3
    assert event.trace_id == recordings.span("rl.rank.step").context.trace_id
    metrics = recordings.metrics()
    assert 1.25 in [point.value for point in metrics["rl.environment.reward.mean"]]
    assert 0.5 in [point.value for point in metrics["rl.sample.zero_variance_ratio"]]


def test_the_log_call_has_the_time_of_the_end_of_its_step(recordings, idle_io_thread, clock):
    with otel_rl.step(1):
        sampled([1.0, 0.0])
        clock.passes(7)
    ended = clock.now()
    clock.passes(30)

    [event] = recordings.events("rl.step")
    assert event.timestamp == ended


def test_an_export_in_the_middle_of_a_step_changes_nothing(recorded, idle_io_thread):
    with otel_rl.step(1):
        for score in (1.0, 1.0, 0.0, 0.0, 0.0, 0.0):
            sampled([score])
            deferral.drain_all()
            trajectories.record()
            assert logged(recorded) == {}
    with otel_rl.step(2):
        sampled([1.0])
    deferral.drain_all()

    assert logged(recorded)[1]["reward"] == pytest.approx(1 / 3)
    assert logged(recorded)[2] == {"rewards/exact/mean": 1.0, "reward": 1.0}


def test_what_a_trainer_or_tracker_logs_itself_wins_and_no_key_comes_twice(sink, recordings):
    for number in (1, 2):
        with otel_rl.step(number):
            sampled([0.0, 1.0])
            sink.log(_scope, Source.WANDB, number, {"reward": 9.0})
            otel_rl.metric("reward_std", 8.0)

    found = logged(recordings)
    assert [of_step["reward"] for of_step in found.values()] == [9.0, 9.0]
    assert [of_step["reward_std"] for of_step in found.values()] == [8.0, 8.0]
    assert found[2]["rewards/exact/mean"] == 0.5


def test_the_loop_of_a_trainer_gets_none(recorded):
    loop = TrainerLoop()
    loop.begin(1, _scope)
    sampled([0.0, 1.0])
    otel_rl.reward("exact", 1.0)
    loop.finish()

    assert logged(recorded) == {}


def test_scores_outside_of_all_steps_are_left_out(recorded):
    sampled([1.0, 1.0])
    otel_rl.reward("exact", 1.0)
    with otel_rl.step(1):
        sampled([0.0, 0.5])
    sampled([1.0, 1.0])

    assert logged(recorded)[1]["reward"] == 0.25
    assert reward_means._open == {}


def test_rollouts_that_failed_or_are_not_used_are_no_samples(recorded):
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

    assert logged(recorded)[1]["rewards/exact/mean"] == 0.5


def test_a_rollout_counts_to_the_step_that_it_names_or_else_to_the_one_in_which_it_ends(recordings):
    late = otel_rl.rollout()
    with otel_rl.step(1):
        late.__enter__()
        otel_rl.reward("exact", 1.0)
        sampled([0.25], iteration=2)
    with otel_rl.step(2):
        late.__exit__(None, None, None)

    assert logged(recordings) == {
        2: {"rewards/exact/mean": 0.625, "reward": 0.625, "reward_std": pytest.approx(0.53033)}
    }


def test_an_evaluation_has_a_mean_of_its_own(recorded):
    with otel_rl.step(1):
        sampled([0.0, 1.0])
        with otel_rl.phase("evaluate"):
            sampled([1.0, 1.0, 0.25])
            otel_rl.reward("alone", 1.0)
        with otel_rl.phase("evaluate"):
            pass
    with otel_rl.step(2), otel_rl.phase("evaluate"):
        sampled([1.0, 1.0, 0.25])

    found = logged(recorded)
    assert (found[1]["reward"], "eval_reward" in found[1]) == (0.5, False)
    assert found[2] == {"eval_reward": 0.75}


def test_without_rollouts_each_score_is_a_sample_of_its_function(recorded):
    with otel_rl.step(1):
        for score in (0.0, 1.0):
            otel_rl.reward("exact", score)
    with otel_rl.step(2):
        for score in (0.0, 1.0):
            otel_rl.reward("exact", score)
            otel_rl.reward("form", 0.25)

    assert logged(recorded) == {
        1: {"rewards/exact/mean": 0.5, "reward": 0.5, "reward_std": pytest.approx(0.5**0.5)},
        # The functions scored the same samples. Which score belongs to which is not known, and so no deviation is.
        2: {"rewards/exact/mean": 0.5, "rewards/form/mean": 0.25, "reward": 0.75},
    }


def test_scores_that_come_after_their_rollouts_are_parts_of_the_reward(recorded):
    with otel_rl.step(1):
        sampled([1.0, 1.0], name="form")
        for score in (0.0, 0.5):
            otel_rl.reward("judge", score)

    assert logged(recorded) == {1: {"rewards/form/mean": 1.0, "rewards/judge/mean": 0.25, "reward": 1.25}}


def test_the_reward_of_a_sample_is_not_made_up_where_functions_scored_unlike_numbers(recorded):
    with otel_rl.step(1):
        for score in (0.0, 1.0, 1.0):
            otel_rl.reward("exact", score)
        otel_rl.reward("form", 1.0)
        otel_rl.reward("form", None)
        otel_rl.reward("form", float("nan"))

    assert logged(recorded) == {1: {"rewards/exact/mean": pytest.approx(2 / 3), "rewards/form/mean": 1.0}}


def test_equal_scores_give_the_same_number_to_the_last_digit_whatever_their_number(recorded):
    for number in (1, 2, 3):
        with otel_rl.step(number):
            sampled([0.1] * (3 * number), [0.1] * 70)

    assert {(one["reward"], one["reward_std"], one["frac_reward_zero_std"]) for one in logged(recorded).values()} == {
        (0.1, 0.0, 1.0)
    }


def test_a_group_of_one_sample_has_nothing_to_compare(recorded):
    with otel_rl.step(1):
        sampled([0.0], [1.0])

    assert logged(recorded)[1].keys() == {"rewards/exact/mean", "reward", "reward_std"}


def test_only_the_process_that_leads_logs(recorded, monkeypatch):
    monkeypatch.setattr(
        process_identity, "_current", process_identity.ProcessIdentity(id="run", rank=1, world_size=2, leads=False)
    )
    with otel_rl.step(1):
        sampled([0.0, 1.0])

    assert logged(recorded) == {}


def test_two_loops_are_kept_apart(recorded):
    with otel_rl.step(1, loop="actor"):
        sampled([1.0])
        with otel_rl.step(1, loop="critic"):
            sampled([0.0])
        sampled([1.0])

    found = [(event.attributes["rl.loop.name"], event.body["reward"]) for event in recorded.events("rl.step")]
    assert found == [("critic", 0.0), ("actor", 1.0)]


def test_steps_that_begin_again_begin_with_no_samples(recorded):
    with otel_rl.step(1):
        sampled([0.0], iteration=2)
    with otel_rl.step(1):
        sampled([0.5])
    with otel_rl.step(2):
        sampled([1.0])

    assert [event.body["reward"] for event in recorded.events("rl.step")] == [0.5, 1.0]


def test_samples_of_many_threads_all_count(recorded):
    def samples():
        for _ in range(200):
            sampled([1.0, 0.0])

    with otel_rl.step(1):
        threads = [threading.Thread(target=samples) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        [sums] = reward_means._open.values()

    assert logged(recorded)[1]["rewards/exact/mean"] == 0.5
    assert sums._totals.count == 1600


def test_a_signal_handler_that_interrupts_the_sums_does_not_wait_for_them(recorded):
    def handler(*_):
        for _ in range(200):
            otel_rl.reward("exact", 1.0)

    with otel_rl.step(1):
        otel_rl.reward("exact", 1.0)
        [sums] = reward_means._open.values()
        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with sums._lock:
                signal.raise_signal(signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, before)

    assert sums._functions["exact"].count == 201
    assert logged(recorded)[1]["reward"] == 1.0


def test_what_a_step_keeps_is_bounded(recorded):
    with otel_rl.step(1):
        for number in range(reward_means.MAXIMUM_STEPS + 10):
            sampled([1.0], iteration=2 + number)
        assert len(reward_means._open) == reward_means.MAXIMUM_STEPS
        for number in range(100):
            otel_rl.reward(f"score of sample {number}", 1.0)

    assert len(logged(recorded)[1]) == reward_means.MAXIMUM_REWARDS
    assert "reward" not in logged(recorded)[1]


def test_groups_beyond_the_limit_do_not_count_to_the_share(recorded, monkeypatch):
    monkeypatch.setattr(reward_means, "MAXIMUM_GROUPS", 2)
    with otel_rl.step(1):
        sampled([0.0, 1.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0])

    assert logged(recorded)[1]["frac_reward_zero_std"] == 0.0
    assert logged(recorded)[1]["reward"] == 0.75


def test_a_forked_child_has_none_of_its_parents_samples(recorded):
    with otel_rl.step(1):
        sampled([1.0], iteration=2)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                lifecycle.run_after_fork_callbacks()
                status = len(reward_means._open)
            finally:
                os._exit(status)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
