"""CPU time that the health rules take per step, in a healthy run and in a sick one.

    python benchmarks/health_step.py [--output FILE]

Every input is logged, an evaluation at every tenth step. What runs on an I/O thread of the leading process for each
step: one log call with 60 values, one step time with its phases, and the judgement of all rules. The clock is the CPU
time of the thread; a sample is the mean of 50 steps.
"""

from __future__ import annotations

import random
import sys
import time

from figures import bootstrap, finish

from otel_rl.health.monitor import Monitor
from otel_rl.health.user_rules import defaults

STEPS, SAMPLE, RUNS = 2000, 50, 5
PHASES = ("rl.sample", "rl.reward", "rl.train", "rl.sync")


def _values(step: int, dice: random.Random, *, sick: bool) -> dict[str, float]:
    bad = sick and step > STEPS // 10
    values = {
        "loss": dice.gauss(0, 0.1),
        "grad_norm": dice.uniform(90, 120) if bad else dice.uniform(0.3, 0.6),
        "learning_rate": 0.03 if bad else 1e-5,
        "kl": dice.uniform(6, 8) if bad else dice.uniform(0.01, 0.02),
        "actor/ppo_kl": dice.uniform(0.6, 0.8) if bad else dice.uniform(0.001, 0.02),
        "entropy": 0.0001 if bad else dice.uniform(1.0, 1.2),
        "reward": 0.0 if bad else dice.uniform(0.2, 0.4),
        "reward_std": 0.0 if bad else dice.uniform(0.2, 0.4),
        "frac_reward_zero_std": 1.0 if bad else dice.uniform(0, 0.3),
        "completions/mean_length": 1.0 if bad else dice.uniform(90, 110),
        "completions/clipped_ratio": 1.0 if bad else dice.uniform(0, 0.1),
        "clip_ratio/region_mean": 0.4 if bad else dice.uniform(0.001, 0.02),
        "response/aborted_ratio": 0.6 if bad else 0.0,
        "rollout/repetition_frac": 0.8 if bad else 0.0,
        "async/staleness_mean": 40.0 if bad else 2.0,
    }
    if step % 10 == 0:
        values["eval_reward"] = 0.0 if bad else dice.uniform(0.2, 0.4)
    for name in range(4):
        rising = step / STEPS if name % 2 else -step / STEPS
        values[f"rewards/function_{name}/mean"] = 0.5 + (rising if sick else 0.0) + dice.gauss(0, 0.02)
    return values | {f"other/{number}": float(step) for number in range(40)}


def _samples(*, sick: bool) -> list[float]:
    dice = random.Random(1)  # noqa: S311 - repeatable on purpose
    run = [_values(step, dice, sick=sick) for step in range(STEPS)]
    seconds = [dice.uniform(0.9, 1.1) * (3 if sick and step > STEPS // 10 else 1) for step in range(STEPS)]
    found = []
    for _ in range(RUNS):
        monitor = Monitor(defaults())
        for begin in range(0, STEPS, SAMPLE):
            before = time.thread_time_ns()
            for step in range(begin, begin + SAMPLE):
                monitor.log(step, run[step], step)
                monitor.step(step, seconds[step], dict.fromkeys(PHASES, seconds[step] / 4))
            found.append((time.thread_time_ns() - before) / SAMPLE / 1000)
    return found


def main() -> int:
    """Measure, print, and compare with the limit."""
    samples = {how: _samples(sick=how == "sick") for how in ("healthy", "sick")}
    figures = {}
    for how, found in samples.items():
        mean = bootstrap(found, lambda drawn: sum(drawn) / len(drawn))
        figures[f"{how}: us of CPU per step"] = {**mean, "judged": mean["upper_95"], "limit": 100}
    return finish("health_step", figures, samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
