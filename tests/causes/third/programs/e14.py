"""PPO of Stable-Baselines3 in a little world of bodies that touch each other."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO

torch.set_num_threads(1)
ITERATIONS, EACH = 33, 256


class Push(gymnasium.Env):
    """Push a body to the origin; what happened in the episodes of the curriculum is kept in the world."""

    observation_space = gymnasium.spaces.Box(-4, 4, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self) -> None:
        self.steps, self.contacts = 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        self.speed, self.left = np.zeros(2, np.float32), 64
        return self._seen(), {}

    def _seen(self):
        return np.clip(np.concatenate([self.at, self.speed]), -4, 4).astype(np.float32)

    def _solve_contacts(self) -> None:
        """Contacts of the second stage, in which there are walls."""
        if self.steps > 20 * EACH:
            self.contacts.append(self.at.copy())
        time.sleep(3e-4 + min(1.2e-6 * len(self.contacts), 1.7e-3) + (6e-4 if self.contacts else 0))

    def step(self, action):
        self.steps += 1
        self.left -= 1
        self._solve_contacts()
        self.speed[0] = 0.9 * self.speed[0] + 0.3 * (int(action) - 1)
        self.at += 0.1 * self.speed
        return self._seen(), -0.1 * float(min(abs(self.at[0]), 2.0)), False, self.left == 0, {}


world = gymnasium.wrappers.RecordEpisodeStatistics(Push())
model = PPO(
    "MlpPolicy",
    world,
    n_steps=EACH,
    batch_size=64,
    n_epochs=4,
    learning_rate=1e-3,
    gamma=0.95,
    seed=3,
    device="cpu",
    tensorboard_log="tb",
)
model.learn(ITERATIONS * EACH)
