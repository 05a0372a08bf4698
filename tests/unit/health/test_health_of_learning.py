"""The rules on reward, loss, entropy, KL, updates and preferences: failures in noisy runs, named with their onset."""

from __future__ import annotations

import math

import healthy_shapes
import pytest
from made_up_runs import CRITICAL, HEALTHY, UNOBSERVED, WARNING, is_near, thrown

from otel_rl.health.monitor import Monitor
from otel_rl.health.user_rules import defaults
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

SEEDS = range(20)
FROM, STEPS = 101, 200


def fed(values, every=1):
    """A monitor, and the step at which each rule first told something."""
    monitor, told = Monitor(defaults()), {}
    for step, logged in enumerate(values, 1):
        changes = monitor.log(step, logged, step - every + 1) if step % every == 0 else []
        for change in [*changes, *monitor.step(step, 1.0)]:
            if change.is_reported:
                told.setdefault(change.code, step)
    return monitor, told


def verdict(values, code, every=1):
    return next(one for one in fed(values, every)[0].verdicts() if one.code == code)


def learning(seed):
    """A reward of 16 samples that rises to 0.8, a loss of SFT's size, and the rest of a GRPO run."""
    dice = thrown(seed)
    for step in range(1, STEPS + 1):
        chance = 0.2 + 0.6 * (1 - math.exp(-step / 30))
        yield {
            "reward": sum(dice.random() < chance for _ in range(16)) / 16,
            "reward_std": abs(dice.gauss(0.3, 0.05)),
            "loss": (1 + math.exp(-step / 30)) * math.exp(dice.gauss(0, 0.1)),
            "kl": 0.0005 * step * math.exp(dice.gauss(0, 0.2)),
            "entropy": 0.6 * (1 + 0.5 * step / STEPS) + dice.gauss(0, 0.03),
            "grad_norm": abs(dice.gauss(0.5, 0.1)),
            "learning_rate": 1e-5 * min(step / 10, 1.0),
            "frac_reward_zero_std": abs(dice.gauss(0.1, 0.05)),
        }


def driven(seed, **changed):
    """:func:`learning`, with values that are functions of the step, the usual one and dice from ``FROM`` on."""
    dice = thrown(seed)
    for step, values in enumerate(learning(seed), 1):
        late = step - FROM + 1
        yield {key: changed[key](late, value, dice) if late > 0 and key in changed else value
               for key, value in values.items()}  # fmt: skip


def means(chance):
    """The mean of 16 samples."""
    return lambda late, _, dice: sum(dice.random() < chance(late) for _ in range(16)) / 16


#: What fails: code, severity, what becomes of the values, and within how many steps after the onset it is told.
SICK = {
    "the reward falls to a sixth": (
        *(Code.REWARD_COLLAPSE, CRITICAL, 30),
        {"reward": means(lambda _: 0.12)},
    ),
    "it falls to a third": (Code.REWARD_COLLAPSE, WARNING, 35, {"reward": means(lambda _: 0.28)}),
    "it slides away": (
        *(Code.REWARD_COLLAPSE, CRITICAL, 45),
        {"reward": means(lambda late: max(0.78 - 0.04 * late, 0.05))},
    ),
    "the loss jumps to manyfold": (
        *(Code.LOSS_DIVERGENCE, WARNING, 10),
        {"loss": lambda _, __, dice: 10.8 + dice.gauss(0, 0.2)},
    ),
    "it explodes": (Code.LOSS_DIVERGENCE, CRITICAL, 20, {"loss": lambda late, _, __: min(1e4, 1.3**late)}),
    "the entropy explodes": (Code.ENTROPY_EXPLOSION, CRITICAL, 8, {"entropy": lambda *_: 8.0}),
    "it rises to manyfold within ten steps": (
        *(Code.ENTROPY_EXPLOSION, WARNING, 20),
        {"entropy": lambda late, _, dice: 0.9 + 0.25 * min(late, 10) + dice.gauss(0, 0.05)},
    ),
    "the divergence is negative": (
        *(Code.KL_ESTIMATE, WARNING, 8),
        {"kl": lambda _, __, dice: -0.4 + dice.gauss(0, 0.02)},
    ),
    "it is far below zero": (
        *(Code.P3_KL_EXPLOSION, CRITICAL, 6),
        {"kl": lambda _, __, dice: -5.0 + dice.gauss(0, 0.2)},
    ),
    "it is always the same": (Code.KL_ESTIMATE, WARNING, 25, {"kl": lambda *_: 0.0371}),
    "it becomes zero": (Code.KL_ESTIMATE, WARNING, 25, {"kl": lambda *_: 0.0}),
    "the schedule is over": (Code.NO_UPDATE, CRITICAL, 20, {"learning_rate": lambda *_: 0.0}),
    "the parameters are frozen": (Code.NO_UPDATE, CRITICAL, 20, {"grad_norm": lambda *_: 0.0}),
}

#: How far an onset may be from ``FROM``, where it is not three steps.
ONSETS = {"it slides away": 10}


@pytest.mark.parametrize("name", SICK)
def test_a_failure_in_a_noisy_run_is_named_with_its_onset_and_in_time(name):
    code, severity, within, changed = SICK[name]
    for seed in SEEDS:
        monitor, told = fed(driven(seed, **changed))
        found = next(one for one in monitor.verdicts() if one.code == code)
        assert (found.severity, found.until) == (severity, None), (seed, found)
        assert abs(found.onset - FROM) <= ONSETS.get(name, 3), (seed, found)
        assert FROM <= told[code] <= FROM + within, (seed, told)
        assert found.observed >= found.needed > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_run_that_is_driven_is_healthy_by_itself(seed):
    assert [one for one in fed(learning(seed))[0].verdicts() if one.is_finding] == []


def test_a_reward_that_collapses_and_comes_back_is_over():
    def back(late, value, dice):
        return means(lambda _: 0.1)(late, value, dice) if late < 50 else value

    found = verdict(driven(0, reward=back), Code.REWARD_COLLAPSE)

    assert is_near(found.onset, FROM)
    assert FROM + 50 <= found.until <= FROM + 65


def test_the_evidence_of_a_collapse_names_the_best_level_and_the_threshold():
    values = ({"reward": 0.8 if step < FROM else 0.15} for step in range(1, STEPS + 1))
    found = verdict(values, Code.REWARD_COLLAPSE)

    assert found.evidence == "reward is 0.15, 0.8 at its best, threshold 0.16"
    assert (found.metric, found.onset, found.observed, found.needed) == ("reward", FROM, STEPS, 40)


def test_a_penalty_that_doubles_is_a_collapse_and_one_that_loses_a_quarter_of_its_gain_is_none():
    def penalty(last):
        return ({"reward": -3 + step / 50 if step < FROM else last} for step in range(1, STEPS + 1))

    assert verdict(penalty(-2.5), Code.REWARD_COLLAPSE).severity == WARNING
    assert verdict(penalty(-1.5), Code.REWARD_COLLAPSE).severity == HEALTHY


def test_a_loss_that_creeps_up_from_its_lowest_is_found():
    values = ({"loss": 2.0 * (1.02 ** max(step - FROM, 0))} for step in range(1, 2 * STEPS))
    assert verdict(values, Code.LOSS_DIVERGENCE).is_finding


def test_some_steps_of_a_high_loss_are_no_divergence():
    values = ({"loss": 40.0 if step % 20 in (0, 1) else 2.0} for step in range(1, STEPS))
    assert verdict(values, Code.LOSS_DIVERGENCE).severity == HEALTHY


def test_a_loss_around_zero_that_leaves_it_downwards_is_found_too():
    dice = thrown(0)
    values = ({"loss": dice.gauss(0, 0.02) - (9.0 if step >= FROM else 0.0)} for step in range(1, STEPS))
    found = verdict(values, Code.LOSS_DIVERGENCE)

    assert (found.severity, found.onset) == (CRITICAL, FROM)


def test_an_entropy_of_whole_answers_is_not_judged():
    values = ({"entropy": 60.0 + step, "reward": 0.5} for step in range(STEPS))
    assert verdict(values, Code.ENTROPY_EXPLOSION).severity == UNOBSERVED


@pytest.mark.parametrize("zeros", [1, 19])
def test_a_warm_up_that_begins_with_zeros_is_no_pause(zeros):
    values = ({"learning_rate": 1e-7 * max(step - zeros, 0)} for step in range(1, STEPS))
    assert verdict(values, Code.NO_UPDATE).severity == HEALTHY


def test_a_learning_rate_that_is_zero_from_the_first_step_on_is_told_with_that_step():
    found = verdict(({"learning_rate": 0.0, "loss": 2.0} for _ in range(100)), Code.NO_UPDATE)

    assert (found.severity, found.onset) == (CRITICAL, 1)
    assert found.evidence == "learning_rate is exactly 0; 100 of 100 steps changed nothing"


def test_a_schedule_that_ends_in_a_loop_without_a_trainer_is_told_with_its_share_of_the_steps():
    values = ({"torch/learning_rate": 1e-3 if step <= 100 else 0.0, "torch/loss": 1.0} for step in range(1, 501))
    found = verdict(values, Code.NO_UPDATE)

    assert (found.severity, found.onset) == (CRITICAL, 101)
    assert found.evidence == "torch/learning_rate is exactly 0; 400 of 500 steps changed nothing"


def without_gradient(share, steps, trainable=4.0):
    return [{"torch/without_gradient": share, "torch/trainable_parameters": trainable}] * steps


@pytest.mark.parametrize(("steps", "severity"), [(4, UNOBSERVED), (5, CRITICAL)])
def test_an_optimizer_whose_parameters_have_no_gradient_is_told_after_five_steps(steps, severity):
    found = verdict(without_gradient(1.0, steps), Code.NO_UPDATE)

    assert found.severity == severity
    if severity == CRITICAL:
        words = "optimizer.step() has moved nothing in 5 of 5 steps: none of its 4 parameters has a gradient"
        assert (found.onset, found.evidence) == (1, words)


def test_an_optimizer_most_of_whose_parameters_have_no_gradient_is_a_warning():
    values = [{"torch/learning_rate": 0.1}] * 30 + without_gradient(0.75, 30)
    found = verdict(values, Code.NO_UPDATE)

    assert (found.severity, found.onset) == (WARNING, 31)
    assert found.evidence == "3 of 4 parameters of the optimizer have no gradient in 30 of 60 steps"


def test_updates_that_a_guard_skips_are_critical_after_five_steps():
    values = [{"torch/learning_rate": 0.1}] * 25 + [{**one, "torch/unchanged": 1.0} for one in without_gradient(0.0, 5)]
    found = verdict(values, Code.NO_UPDATE)

    assert (found.severity, found.onset) == (CRITICAL, 26)
    assert found.evidence.startswith("optimizer.step() has changed no parameter in 5 of 30 steps")


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_parameters_that_a_step_does_not_use_are_no_finding(share):
    assert verdict(without_gradient(share, 100), Code.NO_UPDATE).severity == HEALTHY


def test_a_gradient_of_zero_without_a_signal_is_told_by_that_rule_only():
    values = [{"grad_norm": 0.0, "frac_reward_zero_std": 1.0, "reward_std": 0.0, "reward": 0.1}] * 100
    found = {one.code: one.severity for one in fed(values)[0].verdicts()}

    assert (found[Code.NO_SIGNAL], found[Code.NO_UPDATE]) == (CRITICAL, HEALTHY)


def test_log_calls_of_ten_steps_date_a_pause_by_the_first_step_of_the_first_record():
    values = ({"learning_rate": 1e-5 if step <= 300 else 0.0} for step in range(1, 701))
    assert verdict(values, Code.NO_UPDATE, every=10).onset == 301


# -- preferences -------------------------------------------------------------------------------------------------------


def preferring(seed, gap, steps=STEPS, *, margins=True):
    """Preference training whose margins have this mean; a pair's spread is 1."""
    dice = thrown(seed)
    for step in range(1, steps + 1):
        pairs = [dice.gauss(gap(step), 1.0) for _ in range(16)]
        values = {"rewards/accuracies": sum(pair > 0 for pair in pairs) / 16, "loss": 0.6, "learning_rate": 1e-6}
        yield {**values, "rewards/margins": sum(pairs) / 16} if margins else values


def learnt(step):
    return 1.2 * (1 - math.exp(-step / 20))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_accuracy_that_falls_to_chance_is_named_with_its_onset(seed):
    monitor, told = fed(preferring(seed, lambda step: learnt(step) if step < FROM else -0.1))
    found = next(one for one in monitor.verdicts() if one.code == Code.PREFERENCE)

    assert found.is_finding
    assert is_near(found.onset, FROM), found
    assert told[Code.PREFERENCE] <= FROM + 40


def test_a_policy_that_learns_the_opposite_is_critical():
    found = verdict(preferring(0, lambda step: -learnt(step)), Code.PREFERENCE)

    assert (found.severity, found.metric) == (CRITICAL, "rewards/accuracies")


@pytest.mark.parametrize("seed", SEEDS)
def test_margins_that_collapse_are_found_where_no_accuracy_is_logged(seed):
    values = preferring(seed, lambda step: learnt(step) if step < FROM else 0.05)
    found = verdict(({"rewards/margins": one["rewards/margins"]} for one in values), Code.PREFERENCE)

    assert (found.severity, found.metric) == (WARNING, "rewards/margins")
    assert is_near(found.onset, FROM), found


def test_an_accuracy_that_stays_at_chance_is_told_within_a_hundred_steps_more():
    told = [fed(preferring(seed, lambda _: -0.03))[1].get(Code.PREFERENCE) for seed in SEEDS]

    assert all(step is not None and 60 <= step <= 160 for step in told), told


def test_an_accuracy_of_chance_while_the_learning_rate_still_rises_is_none():
    values = ({**one, "learning_rate": 1e-8 * step} for step, one in enumerate(preferring(0, lambda _: -0.03)))

    assert verdict(values, Code.PREFERENCE).severity == HEALTHY


def test_few_steps_of_preference_training_are_not_judged():
    found = verdict(preferring(0, lambda _: -1.0, steps=59), Code.PREFERENCE)

    assert (found.severity, found.observed, found.needed) == (UNOBSERVED, 59, 60)


# -- scores ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "severity"), [(0.02, HEALTHY), (0.25, WARNING), (0.9, CRITICAL)])
def test_samples_without_a_score_are_told_by_their_share(share, severity):
    dice = thrown(0)
    values = (
        {"unscored_ratio": sum(dice.random() < share for _ in range(32)) / 32 if step >= FROM else 0.0}
        for step in range(1, STEPS)
    )
    found = verdict(values, Code.UNSCORED)

    assert found.severity == severity
    assert severity == HEALTHY or is_near(found.onset, FROM)


def test_the_shapes_of_other_trainings_leave_what_they_lack_unobserved():
    said = {one.code: one for one in fed(healthy_shapes.supervised(0))[0].verdicts()}

    for code in (Code.REWARD_COLLAPSE, Code.ENTROPY_EXPLOSION, Code.PREFERENCE, Code.UNSCORED, Code.KL_ESTIMATE):
        assert said[code].severity == UNOBSERVED
    assert said[Code.LOSS_DIVERGENCE].severity == said[Code.NO_UPDATE].severity == HEALTHY
