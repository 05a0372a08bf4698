"""PPO of Stable-Baselines3 on a pole, with an evaluation now and then."""

from __future__ import annotations

import time

import gymnasium
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback

torch.set_num_threads(1)
ITERATIONS, EACH = 36, 256


class Slower(gymnasium.Wrapper):
    """The real one takes some time for a step, and more to begin again."""

    def reset(self, **more):
        time.sleep(0.004)
        return self.env.reset(**more)

    def step(self, action):
        time.sleep(1e-4)
        seen, reward, *others = self.env.step(action)
        return seen, 0.1 * float(reward), *others


def world():
    return gymnasium.wrappers.RecordEpisodeStatistics(Slower(gymnasium.make("CartPole-v1", max_episode_steps=300)))


model = PPO(
    "MlpPolicy",
    world(),
    n_steps=EACH,
    batch_size=64,
    n_epochs=4,
    learning_rate=lambda left: 1.5e-3 * left,
    gamma=0.95,
    seed=9,
    device="cpu",
    tensorboard_log="tb",
)
model.learn(
    ITERATIONS * EACH,
    callback=[
        EvalCallback(world(), n_eval_episodes=2, eval_freq=10 * EACH, verbose=0),
        CheckpointCallback(10 * EACH, "kept"),
    ],
)
