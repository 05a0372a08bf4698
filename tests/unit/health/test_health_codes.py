"""Each rule on made-up curves: it fires with its onset, and stays quiet on look-alikes that are healthy."""

from __future__ import annotations

import math

import pytest
from made_up_runs import CRITICAL, HEALTHY, UNOBSERVED, WARNING, findings, is_near, monitor, run, thrown, verdict

from otel_rl.health.monitor import Monitor
from otel_rl.health.user_rules import defaults
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

FROM = 25
#: As TRL logs it.
DRIFT = "sampling/sampling_logp_difference/mean"


def ramp(before, after, steps=5, begin=FROM):
    """``before`` until ``begin``, then towards ``after`` within so many steps."""
    return lambda step: before if step < begin else before + (after - before) * min((step - begin + 1) / steps, 1.0)


def from_step(before, after, begin=FROM):
    return lambda step: before if step < begin else after


SICK = {
    "the divergence explodes": (Code.P3_KL_EXPLOSION, CRITICAL, {"kl": ramp(0.02, 7.0)}),
    "it grows, not yet to the end": (Code.P3_KL_EXPLOSION, WARNING, {"kl": ramp(0.02, 2.0)}),
    "it jumps": (Code.P3_KL_EXPLOSION, WARNING, {"kl": from_step(0.01, 0.6)}),
    "an update changes too much": (Code.P3_KL_EXPLOSION, WARNING, {"actor/ppo_kl": from_step(0.02, 0.2)}),
    "and far too much": (Code.P3_KL_EXPLOSION, CRITICAL, {"actor/ppo_kl": from_step(0.02, 0.9)}),
    "the entropy is gone": (Code.P4_ENTROPY_COLLAPSE, CRITICAL, {"entropy": from_step(2.0, 0.0001)}),
    "the entropy is low": (Code.P4_ENTROPY_COLLAPSE, WARNING, {"entropy": ramp(2.0, 0.05)}),
    "one reward rises, one falls, at the cap": (
        Code.P5_REWARD_HACKING,
        CRITICAL,
        {"correct": ramp(0.4, 0.0), "form": ramp(0.1, 0.9), "truncated": from_step(0.0, 1.0)},
    ),
    "one reward rises, one falls": (
        Code.P5_REWARD_HACKING,
        WARNING,
        {"correct": ramp(0.4, 0.1), "form": ramp(0.1, 0.9)},
    ),
    "answers grow into the limit": (Code.P5_REWARD_HACKING, WARNING, {"truncated": from_step(0.05, 0.95)}),
    "every answer is cut": (Code.P9_TRUNCATION, CRITICAL, {"truncated": from_step(0.02, 1.0)}),
    "most answers are cut": (Code.P9_TRUNCATION, WARNING, {"truncated": from_step(0.02, 0.7)}),
    "answers are empty": (Code.P8_GARBLED_OUTPUT, CRITICAL, {"length": from_step(200.0, 1.0)}),
    "answers are nearly empty": (Code.P8_GARBLED_OUTPUT, WARNING, {"length": from_step(200.0, 8.0)}),
    "answers are aborted": (Code.P8_GARBLED_OUTPUT, CRITICAL, {"response/aborted_ratio": from_step(0.0, 0.8)}),
    "answers repeat themselves": (Code.P8_GARBLED_OUTPUT, WARNING, {"rollout/repetition_frac": from_step(0.0, 0.5)}),
    "one token until the limit": (
        Code.P8_GARBLED_OUTPUT,
        WARNING,
        {"entropy": from_step(2.0, 0.001), "truncated": from_step(0.02, 1.0)},
    ),
    "groups die": (Code.NO_SIGNAL, CRITICAL, {"zero": from_step(0.1, 1.0), "reward": from_step(0.4, 0.0)}),
    "most groups are dead": (Code.NO_SIGNAL, WARNING, {"zero": from_step(0.1, 0.9), "reward": from_step(0.4, 0.2)}),
    "the learning rate jumps": (Code.LEARNING_RATE, WARNING, {"learning_rate": from_step(1e-5, 5e-4)}),
    "it is far too high": (Code.LEARNING_RATE, WARNING, {"learning_rate": from_step(1e-5, 0.03)}),
    "and the policy suffers": (
        Code.LEARNING_RATE,
        CRITICAL,
        {"learning_rate": from_step(1e-5, 0.03), "kl": ramp(0.02, 7.0)},
    ),
    "the gradient grows": (Code.GRADIENT_NORM, WARNING, {"grad_norm": from_step(0.5, 20.0)}),
    "the gradient blows up": (Code.GRADIENT_NORM, CRITICAL, {"grad_norm": from_step(0.5, 900.0)}),
    "the loss is no number": (Code.NON_FINITE, CRITICAL, {"loss": from_step(0.1, math.nan)}),
    "the reward is infinite once": (
        Code.NON_FINITE,
        WARNING,
        {"reward": lambda step: math.inf if step == FROM else 0.4},
    ),
    "samples are stale": (Code.STALENESS, WARNING, {"async/staleness_mean": from_step(1.0, 12.0)}),
    "samples are very stale": (Code.STALENESS, CRITICAL, {"async/staleness_mean": from_step(1.0, 64.0)}),
    "the engine has old weights": (Code.ENGINE_DRIFT, WARNING, {DRIFT: from_step(0.015, 0.2)}),
    "the engine has other weights": (Code.ENGINE_DRIFT, CRITICAL, {DRIFT: from_step(0.015, 5.0)}),
}


@pytest.mark.parametrize("name", SICK)
@pytest.mark.parametrize("seed", range(3))
def test_a_sick_run_is_named_with_its_onset(name, seed):
    code, severity, changed = SICK[name]
    found = findings(run(seed=seed, **changed)).get(code)

    assert found is not None, "not found"
    assert (found.severity, is_near(found.onset, FROM)) == (severity, True), found
    assert found.until is None or name == "it jumps" or "once" in name
    assert found.evidence
    assert found.metric
    assert found.next_steps
    assert 0 < found.cost <= 1


def test_a_sick_run_raises_no_rule_that_has_nothing_to_do_with_it():
    found = findings(run(kl=noisy(ramp(0.02, 7.0))))

    assert set(found) == {Code.P3_KL_EXPLOSION}


@pytest.mark.parametrize("length", [50, 400])
def test_the_evidence_names_metric_value_threshold_and_what_it_was(length):
    found = verdict(run(steps=length, kl=ramp(0.02, 7.0, begin=length - 20)), Code.P3_KL_EXPLOSION)

    assert found.evidence == "kl is 7 nat, threshold 3 nat, 0.02 nat in the first steps"
    assert (found.metric, found.value, found.threshold, found.unit) == ("kl", 7.0, 3.0, "{nat}")
    assert is_near(found.onset, length - 20)


def test_a_divergence_that_jumps_and_goes_on_to_rise_is_told_by_its_highest_value():
    found = verdict(run(kl=lambda step: 0.001 if step < 16 else 0.8 if step < 24 else 1.4), Code.P3_KL_EXPLOSION)

    assert found.evidence == "kl is 1.4 nat, threshold 1 nat, 0.001 nat in the first steps"
    assert is_near(found.onset, 16)


# -- the runs of the trial ---------------------------------------------------------------------------------------------


def test_rewards_that_are_all_zero_with_every_answer_cut_from_the_first_step_on():
    found = findings(
        run(
            40,
            reward=lambda _: 0.0,
            correct=lambda _: 0.0,
            form=lambda _: 0.0,
            reward_std=lambda _: 0.0,
            zero=lambda _: 1.0,
            truncated=lambda _: 1.0,
            length=lambda _: 256.0,
            eval_reward=lambda _: None,
        )
    )

    assert {code: (one.severity, one.onset) for code, one in found.items()} == {
        Code.NO_SIGNAL: (CRITICAL, 1),
        Code.P9_TRUNCATION: (CRITICAL, 1),
    }


def test_a_learning_rate_that_ruins_the_policy():
    found = findings(
        run(
            40,
            learning_rate=lambda step: 0.03 * min(step / 6, 1.0),
            kl=lambda step: 0.01 if step < 5 else min(0.15 * 2.0 ** (step - 5), 7.0),
            entropy=lambda step: 2.0 if step < 15 else (2.0 - 0.3 * (step - 15) if step < 21 else 0.0001),
        )
    )

    assert found[Code.LEARNING_RATE].severity == CRITICAL
    assert is_near(found[Code.LEARNING_RATE].onset, 2)
    assert found[Code.P3_KL_EXPLOSION].severity == CRITICAL
    assert is_near(found[Code.P3_KL_EXPLOSION].onset, 5)
    assert found[Code.P4_ENTROPY_COLLAPSE].severity == CRITICAL
    assert is_near(found[Code.P4_ENTROPY_COLLAPSE].onset, 21)


@pytest.mark.parametrize(("share", "onset"), [(0.75, 29), (0.97, 133)])
def test_an_entropy_that_falls_by_a_share_is_dated_from_its_fall_where_that_is_fast(share, onset):
    """A real run lost a quarter of it with each step: six steps from a quarter of the start to the threshold."""
    found = verdict(run(180, entropy=lambda step: 2.7 * share ** max(step - 24, 0)), Code.P4_ENTROPY_COLLAPSE)
    assert is_near(found.onset, onset)


#: Mean accuracy of a GRPO run on the CPU whose weights were changed at step 16.
GAMED = (
    *(0.49, 0.526, 0.464, 0.539, 0.514, 0.533, 0.468, 0.471, 0.093, 0.479, 0.389, 0.423, 0.397, 0.467, 0.412),
    *(0.438, 0.35, 0.284, 0.175, 0.166, 0.109, 0.04, 0.067, 0.026, 0.061, 0.036, 0.02, 0.015, 0.016, 0.015),
)


def test_the_onset_of_a_gamed_reward_is_where_it_began_to_fall_whatever_the_noise_before():
    found = verdict(
        run(30, correct=lambda step: GAMED[step - 1], form=lambda step: 1 - GAMED[step - 1]), Code.P5_REWARD_HACKING
    )

    assert is_near(found.onset, 16)


@pytest.mark.parametrize("steps", [1, 6, 12])
def test_the_onset_of_a_gamed_reward_is_where_it_began_to_fall_however_fast(steps):
    dice = thrown()
    noise = [dice.gauss(0, 0.05) for _ in range(60)]
    fall, rise = ramp(0.45, 0.02, steps, 16), ramp(0.5, 0.98, steps, 16)
    found = verdict(
        run(
            40,
            correct=lambda step: max(fall(step) + noise[step], 0.0),
            form=lambda step: rise(step) - noise[step],
        ),
        Code.P5_REWARD_HACKING,
    )

    assert is_near(found.onset, 16)


def test_a_gamed_reward_with_answers_at_their_limit_and_a_low_entropy():
    found = findings(
        run(
            40,
            form=ramp(0.1, 0.9, 8, 12),
            correct=ramp(0.3, 0.0, 8, 12),
            truncated=ramp(0.02, 1.0, 4, 12),
            length=ramp(100, 256, 4, 12),
            entropy=ramp(2.0, 0.05, 8, 12),
            reward=ramp(0.4, 0.9, 8, 12),
        )
    )

    assert found[Code.P5_REWARD_HACKING].severity == CRITICAL
    assert is_near(found[Code.P5_REWARD_HACKING].onset, 12)
    assert "rewards/correct/mean fell from 0.3 to 0" in found[Code.P5_REWARD_HACKING].evidence


def test_a_policy_that_was_collapsed_from_the_first_step_on():
    found = findings(run(20, kl=lambda _: 7.0, entropy=lambda _: 0.0001))

    assert (found[Code.P3_KL_EXPLOSION].severity, found[Code.P3_KL_EXPLOSION].onset) == (CRITICAL, 1)
    assert (found[Code.P4_ENTROPY_COLLAPSE].severity, found[Code.P4_ENTROPY_COLLAPSE].onset) == (CRITICAL, 1)


# -- evaluation --------------------------------------------------------------------------------------------------------


def evaluated(curve, steps=100):
    return {"eval_reward": lambda step: curve(step) if step % 5 == 0 else None, "steps": steps}


def test_an_evaluation_that_falls_while_training_rises_is_validation_collapse_and_hacking():
    dice = thrown(3)
    found = findings(run(**evaluated(lambda step: (0.5 if step < 60 else 0.1) + dice.gauss(0, 0.01))))

    assert found[Code.P6_VALIDATION_COLLAPSE].severity == CRITICAL
    assert found[Code.P6_VALIDATION_COLLAPSE].onset == 60
    assert found[Code.P5_REWARD_HACKING].severity == WARNING
    assert found[Code.P5_REWARD_HACKING].onset == 60


@pytest.mark.parametrize("seed", range(10))
def test_a_tiny_evaluation_set_is_noisy_and_no_collapse(seed):
    dice = thrown(seed)
    assert findings(run(seed=seed, **evaluated(lambda _: dice.uniform(0.0, 0.3)))) == {}


def test_few_evaluations_are_not_judged():
    found = verdict(run(30), Code.P6_VALIDATION_COLLAPSE)

    assert (found.severity, found.evidence) == (UNOBSERVED, "too few steps")


# -- values that are not finite ----------------------------------------------------------------------------------------


def _logged(gradients, losses, every):
    """What the rule says of log calls for ``every`` steps each."""
    fed = Monitor(defaults())
    for call, (gradient, loss) in enumerate(zip(gradients, losses, strict=True), 1):
        for step in range((call - 1) * every + 1, call * every):
            fed.step(step, 1.0)
        fed.log(call * every, {"grad_norm": gradient, "loss": loss}, first=(call - 1) * every + 1)
        fed.step(call * every, 1.0)
    return next(one for one in fed.verdicts() if one.code == Code.NON_FINITE)


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("gradients", "losses", "every", "severity", "onset"),
    [
        pytest.param([NAN] * 5, [1.2, 0.0, 0.0, 0.0, 0.0], 10, CRITICAL, 1, id="Transformers, each tenth step"),
        pytest.param([0.5, 0.5, NAN, NAN], [2.0, 2.0, 1.0, 0.0], 20, CRITICAL, 41, id="each twentieth step"),
        pytest.param([0.5, NAN], [2.0, 0.0], 500, CRITICAL, 501, id="each 500th step, filtered loss"),
        pytest.param([0.5, NAN], [2.0, 1.5], 500, WARNING, 501, id="each 500th step, the last of them"),
        pytest.param([0.5] * 30 + [NAN] * 2, [2.0] * 32, 1, WARNING, 31, id="two in a row"),
        pytest.param([0.5] * 30 + [NAN] * 5, [2.0] * 35, 1, CRITICAL, 31, id="five in a row"),
        pytest.param([0.5] * 4 + [NAN] * 2, [2.0] * 6, 10, WARNING, 41, id="two log calls of ten steps"),
        pytest.param([0.5] * 4 + [NAN] * 3, [2.0] * 7, 10, CRITICAL, 41, id="three log calls of ten steps"),
        pytest.param([0.5] * 4 + [INF], [2.0] * 5, 10, HEALTHY, None, id="scaling, each tenth step"),
        pytest.param([INF, INF, NAN] + [0.5] * 30, [2.0] * 33, 1, HEALTHY, None, id="scaling at the start"),
        pytest.param([0.5] * 30 + [NAN] + [0.5] * 5, [2.0] * 36, 1, HEALTHY, None, id="one gradient"),
    ],
)
def test_values_that_are_not_finite_are_found_however_seldom_they_are_logged(gradients, losses, every, severity, onset):
    found = _logged(gradients, losses, every)

    assert (found.severity, found.onset) == (severity, onset)


def test_a_loss_of_zero_beside_rewards_is_no_filtered_one():
    fed = Monitor(defaults())
    for step in range(1, 4):
        fed.log(step, {"grad_norm": math.nan, "loss": 0.0, "reward": 0.1 * step})
        fed.step(step, 1.0)

    assert not [one for one in fed.verdicts() if one.is_finding]


# -- plateau and oscillation -------------------------------------------------------------------------------------------


def test_a_reward_that_stands_still_with_a_policy_that_does_not_move_is_a_plateau():
    dice = thrown(1)
    flat = {"reward": lambda _: 0.2 + dice.gauss(0, 0.01), "kl": lambda _: 1e-6, "grad_norm": lambda _: 1e-5}
    found = findings(run(120, **flat))

    assert found[Code.P1_PLATEAU].severity == WARNING
    assert is_near(found[Code.P1_PLATEAU].onset, 1)


def test_a_flat_reward_whose_policy_moves_is_no_plateau():
    dice = thrown(1)
    assert findings(run(120, reward=lambda _: 0.2 + dice.gauss(0, 0.01))) == {}


def test_a_young_run_that_moves_slowly_is_no_plateau():
    dice = thrown(1)
    young = {"reward": lambda step: 0.35 + step / 5000 + dice.gauss(0, 0.02), "kl": lambda step: 1e-6 * step}
    assert findings(run(80, **young)) == {}


def test_a_solved_run_is_neither_a_plateau_nor_without_signal():
    solved = {
        "reward": lambda step: min(0.2 + step * 0.02, 1.0),
        "zero": lambda step: 1.0 if step > 50 else 0.2,
        "reward_std": lambda step: 0.0 if step > 50 else 0.3,
        "kl": lambda _: 1e-5,
        "grad_norm": lambda step: 0.0 if step > 50 else 0.5,
    }
    assert findings(run(150, **solved)) == {}


@pytest.mark.parametrize(("clipped", "severity"), [(0.15, WARNING), (0.5, CRITICAL)])
def test_a_reward_that_swings_while_updates_are_clipped_is_oscillation(clipped, severity):
    dice = thrown(2)
    found = findings(run(reward=lambda _: 0.2 + dice.gauss(0, 0.2), clipped=from_step(0.01, clipped)))

    assert found[Code.P2_OSCILLATION].severity == severity
    assert is_near(found[Code.P2_OSCILLATION].onset, FROM)


def test_a_reward_around_zero_whose_means_differ_less_than_its_samples_is_no_oscillation():
    dice = thrown(2)
    values = run(reward=lambda _: dice.gauss(0, 0.1), reward_std=lambda _: 1.0, clipped=lambda _: 0.15)

    assert Code.P2_OSCILLATION not in findings(values)


def test_a_reward_around_zero_that_swings_more_than_its_samples_is_oscillation():
    values = run(reward=lambda step: 1.0 if step // 3 % 2 else -1.0, reward_std=lambda _: 0.5, clipped=lambda _: 0.15)

    assert findings(values)[Code.P2_OSCILLATION].severity == WARNING


def test_a_noisy_reward_without_clipping_is_no_oscillation():
    dice = thrown(2)
    assert Code.P2_OSCILLATION not in findings(run(reward=lambda _: 0.2 + dice.gauss(0, 0.2)))


# -- step times --------------------------------------------------------------------------------------------------------


def noisy(function, seed=0):
    dice = thrown(seed)
    return lambda step: function(step) * dice.uniform(0.85, 1.2)


def test_steps_that_become_slow_are_named_with_their_phase():
    phases = lambda step: {"rl.sample": 0.6, "rl.reward": 0.1 if step < FROM else 1.6, "rl.train": 0.3}  # noqa: E731
    found = findings(run(60), seconds=noisy(from_step(1.0, 2.5)), phases=phases)

    assert set(found) == {Code.P7_SLOW_STEP}
    assert is_near(found[Code.P7_SLOW_STEP].onset, FROM)
    assert found[Code.P7_SLOW_STEP].severity == WARNING
    assert "rl.reward takes 1.6 s of it, 0.1 s before" in found[Code.P7_SLOW_STEP].evidence


def test_twentyfold_is_critical_and_a_slow_rise_adds_up():
    found = findings(run(100), seconds=noisy(lambda step: 0.2 + 0.8 * step / 100))

    assert found[Code.P7_SLOW_STEP].severity >= WARNING
    assert findings(run(60), seconds=noisy(from_step(0.2, 4.0)))[Code.P7_SLOW_STEP].severity == CRITICAL


def test_a_phase_that_is_in_few_steps_is_not_the_cause_of_all():
    phases = lambda step: {"rl.sample": 0.6, **({"rl.evaluate": 3.0} if step % 20 == 0 else {})}  # noqa: E731
    found = findings(run(70), seconds=noisy(from_step(1.0, 2.5, 45)), phases=phases)

    assert "which no phase explains" in found[Code.P7_SLOW_STEP].evidence


@pytest.mark.parametrize("seed", range(5))
def test_uneven_steps_evaluations_and_checkpoints_are_not_slow(seed):
    uneven = lambda step: (30.0 if step == 1 else 1.0) + (3.0 if step % 10 == 0 else 0.0)  # noqa: E731
    assert findings(run(100, seed=seed), seconds=noisy(uneven, seed)) == {}


def test_a_machine_that_is_busy_for_some_short_steps_is_no_finding():
    busy = lambda step: 0.3 if 30 <= step < 42 else 0.17  # noqa: E731
    assert findings(run(60), seconds=noisy(busy)) == {}
    assert Code.P7_SLOW_STEP in findings(run(120), seconds=noisy(from_step(0.17, 0.4)))


def test_steps_that_take_longer_because_answers_are_longer_are_not_slow():
    longer = from_step(100.0, 210.0)
    assert findings(run(60, length=longer), seconds=noisy(from_step(1.0, 1.9))) == {}


def test_short_steps_may_vary():
    dice = thrown(4)
    assert findings(run(80), seconds=lambda step: 0.05 + dice.uniform(0, 0.1) + (0.03 if step > 40 else 0)) == {}


# -- healthy runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_healthy_run_raises_nothing(seed):
    assert findings(run(300, seed=seed), seconds=noisy(lambda _: 1.0, seed)) == {}


def late(step):
    return 0.0 if step <= 25 else min((step - 25) * 0.02, 0.8)


LOOK_ALIKES = {
    "a warm-up of the learning rate": {"learning_rate": lambda step: 1e-4 * min(step / 30, 1.0)},
    "a schedule with restarts": {"learning_rate": lambda step: 1e-5 * (1 + math.cos(step / 5)) + 1e-8},
    "a tiny model with a high learning rate": {"learning_rate": lambda _: 1e-3},
    "a level small divergence": {"kl": lambda step: 0.03 + 0.001 * (step % 7)},
    "zeros of a trainer without a reference": {"kl": lambda _: 0.0},
    "a tiny divergence that is rounded": {"kl": lambda _: 0.0002},
    "a reward function that is not for these tasks": {"rewards/code/mean": lambda _: math.nan},
    "a divergence that creeps up": {"kl": lambda step: 0.005 * step},
    "single spikes of the divergence": {"kl": lambda step: 9.0 if step % 13 == 0 else 0.02},
    "an entropy that falls to a fifth": {"entropy": lambda step: max(2.0 - 0.05 * step, 0.4)},
    "a tenth of the answers cut": {"truncated": lambda _: 0.12},
    "a third of the answers cut now and then": {"truncated": lambda step: 0.6 if step % 3 == 0 else 0.1},
    "a spike of the gradient": {"grad_norm": lambda step: 80.0 if step == 30 else 0.5},
    "large gradients that are usual": {"grad_norm": lambda step: 100.0 + step % 7},
    "some dead groups": {"zero": lambda step: 0.5 + 0.2 * (step % 2)},
    "an infinite gradient once": {"grad_norm": lambda step: math.inf if step == 3 else 0.5},
    "a loss scale that is too high at first": {"grad_norm": lambda step: math.inf if step <= 5 else 0.5},
    "PPO clips a bit": {"clipped": lambda _: 0.15},
    "longer answers": {"length": lambda step: 100 + 8 * step},
    "answers that become short": {"length": lambda step: max(300 - 5 * step, 60)},
    "a negative reward": {"reward": lambda step: -3 + 0.02 * step, "reward_std": lambda _: 0.4},
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_healthy_look_alike_raises_nothing(name):
    assert findings(run(**LOOK_ALIKES[name])) == {}


def test_a_reward_that_is_zero_at_first_and_rises_late_is_never_critical():
    values = run(
        100,
        reward=late,
        correct=late,
        form=lambda _: 0.0,
        reward_std=lambda step: 0.3 if step > 25 else 0.0,
        zero=lambda step: 0.2 if step > 25 else 1.0,
        grad_norm=lambda step: 0.5 if step > 25 else 0.0,
        eval_reward=lambda _: None,
    )
    found = findings(values)

    assert set(found) == {Code.NO_SIGNAL}
    assert found[Code.NO_SIGNAL].severity == WARNING
    assert found[Code.NO_SIGNAL].until is not None


def test_supervised_training_without_rewards_is_quiet_and_says_what_was_not_judged():
    dice = thrown(0)
    values = [
        {
            "loss": 3.0 / step + dice.gauss(0, 0.05),
            "grad_norm": 5.0 / step + abs(dice.gauss(0.3, 0.1)),
            "learning_rate": 2e-4 * (1 - step / 200),
            "entropy": max(2.0 - 0.05 * step, 0.005),
            "mean_token_accuracy": min(0.3 + 0.01 * step, 1.0),
            "epoch": step / 100,
        }
        for step in range(1, 150)
    ]
    said = {one.code: one for one in monitor(values, noisy(lambda _: 0.4)).verdicts()}

    assert [one for one in said.values() if one.is_finding] == []
    assert said[Code.P4_ENTROPY_COLLAPSE].severity == UNOBSERVED
    assert said[Code.P4_ENTROPY_COLLAPSE].evidence == "not logged: mean reward of the batch (reward)"
    assert said[Code.GRADIENT_NORM].severity == HEALTHY


def one_prompt_a_step(seed, dead=0.6):
    """In six of ten steps all answers to the one prompt get the same reward."""
    dice = thrown(seed)
    return [{"reward": dice.random(), "frac_reward_zero_std": float(dice.random() < dead)} for _ in range(400)]


def test_a_constant_reward_is_said_once():
    said = verdict(({"reward": 1.0} for _ in range(10)), Code.NO_SIGNAL)

    assert said.is_finding
    assert said.evidence.count("reward is 1") == 1
    # The first of the equal values, though only the second one shows that they are.
    assert said.onset == 1


def test_one_prompt_a_step_has_no_signal_by_chance_many_times_in_a_row():
    severities = [verdict(one_prompt_a_step(seed), Code.NO_SIGNAL).severity for seed in range(12)]

    assert severities.count(CRITICAL) <= 2


def test_by_chance_most_steps_of_one_prompt_have_no_signal_for_a_while():
    said = [verdict(one_prompt_a_step(seed), Code.NO_SIGNAL) for seed in range(12)]

    # A share of groups; "in a row" is the other sentence.
    assert len([one for one in said if one.is_finding and "in a row" not in one.evidence]) <= 1


def test_one_prompt_a_step_that_is_hardly_ever_of_use_is_a_warning():
    severities = [verdict(one_prompt_a_step(seed, 0.93), Code.NO_SIGNAL).severity for seed in range(12)]

    assert severities.count(WARNING) + severities.count(CRITICAL) >= 10


def test_most_groups_without_a_difference_are_a_warning_within_one_window():
    few = run(24, zero=lambda step: 0.85 + 0.01 * (step % 5))

    assert verdict(few, Code.NO_SIGNAL).severity == WARNING


def test_a_small_penalty_that_grows_is_no_part_of_the_reward_that_is_gone():
    values = run(
        entropy=lambda _: 0.08,
        **{"rewards/overlong/mean": lambda step: -0.005 - 0.013 * step / 60 + 0.001 * (step % 3)},
    )

    assert verdict(values, Code.P5_REWARD_HACKING).severity < CRITICAL


def test_the_entropy_of_a_token_is_trusted_before_that_of_an_answer():
    """TRL's PPO logs both; that of an answer is the sum over its tokens."""
    values = run(
        entropy=lambda _: None,
        **{
            "objective/entropy": lambda step: 60.0 if step < FROM else 1.0,
            "policy/entropy_avg": lambda step: 1.2 if step < FROM else 0.001,
        },
    )

    found = verdict(values, Code.P4_ENTROPY_COLLAPSE)
    assert (found.severity, found.metric) == (CRITICAL, "policy/entropy_avg")


def preference_training():
    """TRL's KTO: its "kl" sums the tokens of an answer."""
    dice = thrown(0)
    return [
        {
            "loss": 0.5 - step / 1000,
            "kl": 8 + step / 20 + dice.gauss(0, 2),
            "rewards/chosen": step / 10,
            "rewards/rejected": -step / 10,
        }
        for step in range(1, 100)
    ]


def test_the_divergence_of_whole_answers_in_preference_training_is_not_taken_for_that_of_a_token():
    said = {one.code: one for one in monitor(preference_training()).verdicts()}

    assert [one for one in said.values() if one.is_finding] == []
    assert said[Code.P3_KL_EXPLOSION].severity == UNOBSERVED


def test_the_same_as_a_tracker_gets_it():
    values = [{f"train/{key}": value for key, value in step.items()} for step in preference_training()]

    assert verdict(values, Code.P3_KL_EXPLOSION).severity == UNOBSERVED


@pytest.mark.parametrize("steps", [1, 2, 4, 6])
def test_a_short_healthy_run_is_not_judged_where_steps_are_too_few(steps):
    said = {one.code: one for one in monitor(run(steps, eval_reward=lambda _: None)).verdicts()}

    assert [one for one in said.values() if one.is_finding] == []
    for code in (Code.P1_PLATEAU, Code.P2_OSCILLATION, Code.P7_SLOW_STEP, Code.NO_SIGNAL, Code.GRADIENT_NORM):
        assert (said[code].severity, said[code].evidence) == (UNOBSERVED, "too few steps")


@pytest.mark.parametrize("code", [value for key, value in vars(Code).items() if key.isupper()])
def test_a_rule_without_its_inputs_is_unobserved_and_never_healthy(code):
    found = verdict([{"something/else": float(step)} for step in range(100)], code, seconds=lambda _: math.nan)

    assert found.severity == UNOBSERVED
    assert "not logged: " in found.evidence or found.evidence == "no step was seen"


@pytest.mark.parametrize("key", [DRIFT, "train/train_rollout_logprob_abs_diff", "logprob_difference"])
@pytest.mark.parametrize("level", [1e-6, 0.002, 0.02, 0.08])
def test_a_level_difference_of_engine_and_trainer_is_no_drift(key, level):
    for seed in range(20):
        dice = thrown(seed)
        curve = [level * dice.lognormvariate(0, 0.4) for _ in range(121)]
        found = verdict(run(120, seed=seed, **{key: lambda step, curve=curve: curve[step]}), Code.ENGINE_DRIFT)
        assert found.severity == HEALTHY, found


def test_a_difference_of_one_step_is_no_drift():
    found = verdict(run(**{DRIFT: lambda step: 3.0 if step == FROM else 0.015}), Code.ENGINE_DRIFT)
    assert found.severity == HEALTHY


def test_a_difference_that_was_too_large_from_the_start_is_told_too():
    found = verdict(run(**{DRIFT: lambda _: 0.8}), Code.ENGINE_DRIFT)
    assert (found.severity, found.onset) == (WARNING, 1)
