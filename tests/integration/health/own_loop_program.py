"""Loops of its own that tell nothing but rewards, and run into one failure each or none.

python own_loop_program.py [healthy] [collapsed] [fallen] [hacked] [stuck] [unscored]
python own_loop_program.py late STEPS

The latter does not fail: most of its scores come so many steps late.
"""

from __future__ import annotations

import random
import sys

import otel_rl

STEPS, GROUPS, SAMPLES = 60, 8, 4
#: The step at which the failure begins.
ONSET = 31
dice = random.Random(7)  # noqa: S311


def chance(failure, step):
    """How probable a right answer is."""
    if failure == "collapsed" and step >= ONSET:
        return 0.0
    if failure == "fallen":
        return 0.8 if step < ONSET else 0.05
    if failure == "hacked":
        return 0.6 if step < ONSET else max(0.6 - 0.06 * (step - ONSET + 1), 0.0)
    return 0.5 if failure == "stuck" else 0.3 + 0.4 * step / STEPS


def politeness(failure, step):
    """The mean of the other score."""
    if failure in ("collapsed", "fallen") and step >= ONSET:
        return 0.0
    rise = 0.05 * (step - ONSET + 1) if failure == "hacked" and step >= ONSET else 0.0
    return min(0.3 + rise, 1.0)


def sample(failure, step):
    for group in range(GROUPS):
        # The sums of a step do not depend on when its parts are delivered.
        if group == 3 and step % 10 == 0:
            otel_rl.flush(timeout=60)
        for _ in range(SAMPLES):
            with otel_rl.rollout(group_id=f"{step}-{group}"):
                if failure == "unscored" and step >= ONSET and dice.random() < 0.7:
                    otel_rl.reward("polite", float("nan"))
                    continue
                spread = 0.0 if failure == "collapsed" and step >= ONSET else 0.05
                otel_rl.reward("correct", dice.random() < chance(failure, step))
                otel_rl.reward("polite", politeness(failure, step) + dice.uniform(-spread, spread))


def score_late(delay):
    waiting = []
    for step in range(1, STEPS + 1):
        # As in steps that take longer than the time between two exports: each is judged before the next one.
        otel_rl.flush(timeout=60)
        with otel_rl.step(step):
            while waiting and waiting[0][0] + delay <= step:
                _, it, score = waiting.pop(0)
                it.reward("correct", score)
            for place in range(GROUPS * SAMPLES):
                with otel_rl.rollout(group_id=f"{step}-{place // SAMPLES}") as it:
                    score = float(dice.random() < chance("late", step))
                    if place % SAMPLES == 0:
                        otel_rl.reward("correct", score)
                    else:
                        waiting.append((step, it, score))
    for _, it, score in waiting:
        it.reward("correct", score)


def main(failures):
    for step in range(1, STEPS + 1):
        for failure in failures:
            with otel_rl.step(step, loop=failure if len(failures) > 1 else None):
                if failure == "stuck":
                    otel_rl.metric("grad_norm", 1e-6)
                sample(failure, step)


if __name__ == "__main__":
    if sys.argv[1] == "late":
        score_late(int(sys.argv[2]))
    else:
        main(sys.argv[1:])
