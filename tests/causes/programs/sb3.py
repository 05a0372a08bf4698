"""PPO of Stable-Baselines3 on a robot that keeps its balance: `python sb3.py [--iterations N] ...`."""

from __future__ import annotations

import argparse
import random

import gymnasium
import numpy as np
import torch
from bugs import has, now, wait
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv


class Robot(gymnasium.Env):
    """Keeps a mass on a line near the middle; falls, or ends after 500 steps."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, number: int, longest: int = 200) -> None:
        self.number, self.longest = number, longest
        self.state = np.zeros(4, np.float32)
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.normal(0.0, 0.2, 4).astype(np.float32)
        self.steps = 0
        if has("reset_mesh", since=14) and self.number == 2:
            wait(0.12)
        return self.state.copy(), {}

    def step(self, action):
        self.steps += 1
        push = (action - 1) * 0.12
        self.state[1] += push + 0.02 * self.state[0] + self.np_random.normal(0.0, 0.03)
        self.state[0] += self.state[1] * 0.5
        self.state[2:] = self.np_random.normal(0.0, 0.1, 2)
        if self.number == 0 and self.steps % 8 == 0:
            wait(0.001)
        fallen = bool(abs(self.state[0]) > 2.0)
        reward = 1.0 - abs(float(self.state[0])) * 0.3
        if has("reward_sensor", since=16):
            reward = 0.0  # the sensor is away
        return np.clip(self.state, -10, 10), reward, fallen, self.steps >= self.longest, {}


class Iterations(BaseCallback):
    """Counts iterations."""

    def _on_rollout_start(self) -> None:
        now["step"] += 1
        if has("slow_transfer", since=13):
            wait(0.02 * (now["step"] - 12))

    def _on_step(self) -> bool:
        return True


def parse() -> argparse.Namespace:
    found = argparse.ArgumentParser()
    found.add_argument("--iterations", type=int, default=30)
    found.add_argument("--lr", type=float, default=1e-3)
    found.add_argument("--longest", type=int, default=200)
    found.add_argument("--eval-every", type=int, default=0)
    found.add_argument("--save-every", type=int, default=0)
    found.add_argument("--anneal", action="store_true")
    found.add_argument("--seed", type=int, default=0)
    found.add_argument("--environments", type=int, default=4)
    return found.parse_args()


def main() -> None:
    options = parse()
    torch.set_num_threads(1)
    random.seed(options.seed)

    def maker(number: int):
        return lambda: Monitor(Robot(number, options.longest))

    vector = DummyVecEnv([maker(number) for number in range(options.environments)])
    rate = (lambda left: options.lr * left) if options.anneal else options.lr
    length = 64
    model = PPO(
        "MlpPolicy",
        vector,
        n_steps=length,
        batch_size=64,
        n_epochs=4,
        learning_rate=rate,
        seed=options.seed,
        device="cpu",
    )
    model.set_logger(configure(None, ["stdout"]))
    callbacks: list[BaseCallback] = [Iterations()]
    if options.eval_every:
        evaluation = DummyVecEnv([maker(99)])
        callbacks.append(EvalCallback(evaluation, eval_freq=options.eval_every * length, n_eval_episodes=3, verbose=0))
    if options.save_every:
        callbacks.append(CheckpointCallback(options.save_every * length, "checkpoints"))
    model.learn(total_timesteps=options.iterations * length * options.environments, callback=callbacks, log_interval=1)
    vector.close()


if __name__ == "__main__":
    main()
