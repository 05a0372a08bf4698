"""A controller for two robots, trained by evolution in Gymnasium: `python c17.py [--steps N]`."""

from __future__ import annotations

import argparse
import logging
import random
import statistics
import time

import gymnasium
import numpy as np

import otel_rl

log = logging.getLogger("train")
now = {"step": 0}


class Reach(gymnasium.Env):
    """Reach a goal on a plane."""

    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (4,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    noise = 0.05

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.normal(0, 1.0, 2), self.np_random.normal(0, 1.0, 2)
        self.steps = 0
        return self._seen(), {}

    def _seen(self):
        return np.concatenate([self.place, self.goal]).clip(-5, 5).astype(np.float32)

    def step(self, action):
        self.steps += 1
        time.sleep(0.0004 * random.lognormvariate(0.0, 0.2))
        self.place = self.place + 0.3 * self.force(action) + self.np_random.normal(0, self.noise, 2)
        distance = float(np.linalg.norm(self.goal - self.place))
        is_near = distance < 0.35
        return self._seen(), -0.1 * distance + is_near, is_near, self.steps >= 40, {"is_success": is_near}

    def force(self, action):
        return action


class Arm(Reach):
    """The same with a joint that is stiffer."""

    noise = 0.08

    def force(self, action):
        return -0.2 * action if now["step"] >= 19 else 0.9 * action


gymnasium.register("Wheels-v0", Reach)
gymnasium.register("Arm-v0", Arm)


def play(environment: gymnasium.Env, weights: np.ndarray) -> float:
    seen, _ = environment.reset(seed=random.randrange(10**6))
    total, is_over = 0.0, False
    while not is_over:
        action = np.tanh(weights @ np.append(seen, 1.0)).astype(np.float32)
        seen, reward, is_done, is_cut, _ = environment.step(action)
        total, is_over = total + reward, is_done or is_cut
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    random.seed(options.seed)
    generator = np.random.default_rng(options.seed)
    environments = {name: gymnasium.make(name) for name in ("Wheels-v0", "Arm-v0")}
    weights = {name: np.array([[-1.0, 0, 1, 0, 0], [0, -1, 0, 1, 0]]) * 0.5 for name in environments}
    for number in range(1, options.steps + 1):
        now["step"] = number
        with otel_rl.step(number):
            for name, environment in environments.items():
                improve(name, environment, weights, generator)


def improve(name, environment, weights, generator) -> None:
    """A step of evolution for one robot."""
    returns, tried = [], []
    with otel_rl.phase("sample"):
        for _ in range(5):
            noise = generator.normal(0, 0.05, weights[name].shape)
            tried.append(noise)
            returns.append(play(environment, weights[name] + noise))
    with otel_rl.phase("train"):
        spread = statistics.pstdev(returns) + 1e-6
        mean = statistics.fmean(returns)
        weights[name] = weights[name] + 0.02 * sum(
            (one - mean) / spread * noise for one, noise in zip(returns, tried, strict=True)
        )
    otel_rl.metric(f"{name}/return", mean)
    log.info("step %d %s return %.3f", now["step"], name, mean)


if __name__ == "__main__":
    main()
