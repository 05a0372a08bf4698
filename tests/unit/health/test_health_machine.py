"""States, hysteresis, restarts, silence: what all rules share."""

from __future__ import annotations

import math

from made_up_runs import CRITICAL, HEALTHY, UNOBSERVED, WARNING, findings, monitor, run, verdict

from otel_rl.health.curves import KEPT
from otel_rl.health.monitor import Monitor
from otel_rl.health.user_rules import defaults
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

KL = Code.P3_KL_EXPLOSION


def kl(*values):
    return [{"kl": value} for value in values]


def state(fed, code=KL):
    return fed.states()[code]


def test_a_rule_is_unobserved_until_it_has_judged_and_healthy_from_then_on():
    fed = Monitor(defaults())
    seen = []
    for step in range(1, 5):
        fed.log(step, {"kl": 0.01})
        fed.step(step)
        seen.append(state(fed))

    assert seen == [UNOBSERVED, UNOBSERVED, HEALTHY, HEALTHY]


def test_a_state_rises_through_warning_and_falls_only_after_enough_good_steps():
    fed = monitor(kl(*[0.01] * 10, *[2.0] * 6, *[6.0] * 6, *[0.01] * 20))

    told = [(one.before, one.state, one.iteration) for one in fed.changes if one.code == KL]
    assert [one[:2] for one in told] == [(HEALTHY, WARNING), (WARNING, CRITICAL), (CRITICAL, HEALTHY)]
    assert [one[2] for one in told] == [13, 19, 28]
    [found] = [one for one in fed.verdicts() if one.is_finding]
    assert (found.severity, found.onset, found.until) == (CRITICAL, 11, 28)
    assert math.isclose(found.cost, 18 / 42)


def test_a_rule_that_stays_critical_is_asked_more_rarely_and_falls_all_the_same():
    fed = monitor(kl(*[7.0] * 60, *[0.01] * 20))

    machine = next(one for one in fed.machines if one.code == KL)
    assert machine.judged < 50
    assert state(fed) == HEALTHY


def test_a_value_between_the_thresholds_for_rising_and_falling_changes_nothing():
    between = defaults().limits[KL]["kl_warning"] * 0.8

    assert Code.P3_KL_EXPLOSION not in findings(kl(*[between] * 40))
    fed = monitor(kl(*[0.01] * 10, *[2.0] * 5, *[between] * 40))
    assert state(fed) == WARNING


def test_what_is_over_stays_among_the_findings_and_the_worst_counts():
    fed = monitor(kl(*[0.01] * 10, *[6.0] * 5, *[0.01] * 30, *[2.0] * 5, *[0.01] * 30))

    [found] = [one for one in fed.verdicts() if one.code == KL]
    assert (found.severity, found.onset, found.until is not None) == (CRITICAL, 11, True)
    assert state(fed) == HEALTHY


def test_the_reading_that_tells_most_is_kept_and_the_onset_of_the_first():
    found = verdict(kl(*[0.01] * 10, *[2.0] * 5, *[9.0] * 5, *[5.0] * 10), KL)

    assert (found.onset, found.value) == (11, 9.0)
    assert "kl is 9 nat" in found.evidence


def test_changes_between_unobserved_and_healthy_are_not_told():
    assert monitor(run(40)).changes == []


def test_an_input_that_is_no_longer_logged_makes_its_rule_unobserved():
    fed = monitor([*run(30), *({"reward": 0.5 + step / 100} for step in range(30))])

    found = next(one for one in fed.verdicts() if one.code == KL)
    assert (found.severity, found.evidence) == (UNOBSERVED, "its inputs are no longer logged")


def test_a_critical_rule_whose_input_falls_silent_keeps_its_finding():
    fed = monitor([*kl(*[0.01] * 10, *[7.0] * 10), *({"reward": float(step)} for step in range(40))])

    assert state(fed) == UNOBSERVED
    [found] = [one for one in fed.verdicts() if one.code == KL]
    assert (found.severity, found.onset) == (CRITICAL, 11)


def test_an_input_that_comes_back_is_judged_again():
    silent = [{"reward": float(step)} for step in range(40)]
    fed = monitor([*kl(*[7.0] * 30), *silent, *kl(*[0.01] * 10)])

    assert state(fed) == HEALTHY


def test_an_evaluation_may_be_rare():
    values = [{"reward": 0.1, **({"eval_reward": 0.3} if step % 40 == 0 else {})} for step in range(1, 400)]

    assert state(monitor(values), Code.P6_VALIDATION_COLLAPSE) == HEALTHY


def test_logging_every_tenth_step_dates_the_onset_by_the_first_step_of_the_record():
    fed = Monitor(defaults())
    for record in range(1, 21):
        last = record * 10
        fed.log(last, {"kl": 0.01 if record <= 10 else 7.0}, last - 9)
        for step in range(last - 9, last + 1):
            fed.step(step, 1.0)

    found = next(one for one in fed.verdicts() if one.code == KL)
    assert (found.severity, found.onset) == (CRITICAL, 101)


def test_a_renamed_key_is_followed_after_a_while():
    fed = monitor([*kl(*[0.01] * 20), *({"actor/kl_loss": 7.0} for _ in range(30))])

    assert state(fed) == CRITICAL


def test_a_key_behind_train_and_the_name_of_the_registry_are_found():
    assert state(monitor([{"train/kl": 7.0}] * 10)) == CRITICAL
    assert state(monitor([{"rl.train.kl": 7.0}] * 10)) == CRITICAL


def test_two_keys_for_one_input_are_not_mixed():
    fed = monitor([{"kl": 0.01, "actor/kl_loss": 9.0}] * 40)

    assert state(fed) == HEALTHY


# -- restarts ----------------------------------------------------------------------------------------------------------


def test_steps_that_begin_again_are_judged_anew_and_what_was_found_is_kept():
    fed = monitor(kl(*[0.01] * 10, *[7.0] * 10))
    assert state(fed) == CRITICAL
    for step in range(8, 30):
        fed.log(step, {"kl": 0.01})
        fed.step(step, 1.0)

    assert state(fed) == HEALTHY
    found = next(one for one in fed.verdicts() if one.code == KL)
    assert (found.severity, found.onset, found.until) == (CRITICAL, 11, 20)


def test_a_restart_is_seen_by_the_steps_alone():
    fed = monitor([{}] * 30)
    assert state(fed, Code.P7_SLOW_STEP) == HEALTHY
    fed.step(5, 1.0)

    assert state(fed, Code.P7_SLOW_STEP) == UNOBSERVED


def test_an_evaluation_that_is_logged_late_for_an_earlier_step_is_no_restart():
    fed = monitor(kl(*[7.0] * 20))
    fed.log(15, {"eval_reward": 0.3})
    fed.step(21, 1.0)

    assert state(fed) == CRITICAL


def test_values_that_come_after_their_step_has_ended_are_judged():
    fed = Monitor(defaults())
    for step in range(1, 20):
        fed.step(step, 1.0)
        fed.log(step, {"kl": 7.0})
    fed.judge()

    assert state(fed) == CRITICAL


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_memory_is_bounded_by_steps_keys_and_functions():
    fed = Monitor(defaults())
    for step in range(1, 3000):
        fed.log(step, {"kl": 0.01, f"rewards/f{step}/mean": 1.0, f"key/{step}": 1.0, "loss": math.nan})
        fed.step(step, 1.0, {f"phase {step}": 1.0})

    curves = fed._curves
    assert len(curves.get("kl").values) <= 2 * KEPT
    assert len(curves.functions) <= 16
    assert len(curves.phases) <= 16
    assert len(curves.not_finite) <= KEPT
    assert len(curves._found) <= 4096


def test_texts_booleans_and_huge_numbers_are_no_trouble():
    fed = monitor([{"kl": "0.1", "entropy": True, "reward": 10**400, "loss": None, "grad_norm": [1]}] * 30)

    assert state(fed, Code.NON_FINITE) == CRITICAL
    assert state(fed) == UNOBSERVED
