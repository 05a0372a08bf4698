"""PPO of Stable-Baselines3 on CartPole, with an evaluation: prints what it has learnt, which seeds decide."""

import hashlib
import sys

import gymnasium
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

torch.set_num_threads(1)


def make() -> gymnasium.Env:
    return Monitor(gymnasium.make("CartPole-v1"))


if __name__ == "__main__":
    vector = SubprocVecEnv([make, make], start_method="spawn") if "processes" in sys.argv else DummyVecEnv([make, make])
    model = PPO("MlpPolicy", vector, n_steps=64, batch_size=64, n_epochs=2, seed=7, device="cpu")
    model.set_logger(configure(None, []))
    model.learn(total_timesteps=256, log_interval=1)
    evaluation = DummyVecEnv([make])
    evaluation.seed(3)
    mean, spread = evaluate_policy(model, evaluation, n_eval_episodes=3, warn=False)
    weights = b"".join(value.numpy().tobytes() for value in model.policy.state_dict().values())
    print(hashlib.sha256(weights).hexdigest(), mean, spread, model.num_timesteps)
    vector.close()
