"""Loops of its own that tell nothing but rewards, and run into one failure each or none.

python own_loop_program.py [healthy] [collapsed] [fallen] [hacked] [stuck] [unscored]
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
            otel_rl.flush(timeout=10)
        for _ in range(SAMPLES):
            with otel_rl.rollout(group_id=f"{step}-{group}"):
                if failure == "unscored" and step >= ONSET and dice.random() < 0.7:
                    otel_rl.reward("polite", float("nan"))
                    continue
                spread = 0.0 if failure == "collapsed" and step >= ONSET else 0.05
                otel_rl.reward("correct", dice.random() < chance(failure, step))
                otel_rl.reward("polite", politeness(failure, step) + dice.uniform(-spread, spread))


def main(failures):
    for step in range(1, STEPS + 1):
        for failure in failures:
            with otel_rl.step(step, loop=failure if len(failures) > 1 else None):
                if failure == "stuck":
                    otel_rl.metric("grad_norm", 1e-6)
                sample(failure, step)


if __name__ == "__main__":
    main(sys.argv[1:])
