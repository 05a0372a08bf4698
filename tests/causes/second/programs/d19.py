"""PPO on Pendulum, environments in processes of their own; updates of an iteration end early if the policy moved far."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

ITERATIONS = 70
ENVIRONMENTS = 4
HORIZON = 128
EPOCHS = 8
MINIBATCHES = 4
TARGET_KL = 0.02


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(3, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1))
        self.critic = nn.Sequential(nn.Linear(3, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, states: torch.Tensor) -> tuple[torch.distributions.Normal, torch.Tensor]:
        return torch.distributions.Normal(self.actor(states)[..., 0], self.log_std.exp()), self.critic(states)[..., 0]


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(17)
    environments = gymnasium.vector.AsyncVectorEnv([lambda: gymnasium.make("Pendulum-v1") for _ in range(ENVIRONMENTS)])
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda one: 1 - one / ITERATIONS)
    writer = SummaryWriter("runs/pendulum")
    observation, _ = environments.reset(seed=17)
    for iteration in range(ITERATIONS):
        begin = time.monotonic()
        states, actions, logps, values, rewards = [], [], [], [], []
        for _ in range(HORIZON):
            state = torch.as_tensor(observation, dtype=torch.float32)
            with torch.no_grad():
                distribution, value = agent(state)
                action = distribution.sample()
            observation, reward, _, _, _ = environments.step(2 * np.tanh(action.numpy())[:, None])
            states.append(state)
            actions.append(action)
            logps.append(distribution.log_prob(action))
            values.append(value)
            rewards.append(torch.as_tensor((reward + 8) / 8, dtype=torch.float32))
        with torch.no_grad():
            _, following = agent(torch.as_tensor(observation, dtype=torch.float32))
        advantage, last = [], torch.zeros(ENVIRONMENTS)
        for place in reversed(range(HORIZON)):
            after = following if place == HORIZON - 1 else values[place + 1]
            last = rewards[place] + 0.95 * after - values[place] + 0.95 * 0.9 * last
            advantage.append(last)
        flat = [torch.cat(one) for one in (states, actions, logps, values, advantage[::-1])]
        state, action, old, value, gain = flat
        returns = gain + value
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        updates, kl = 0, 0.0
        for _ in range(EPOCHS):
            for part in torch.randperm(len(state)).chunk(MINIBATCHES):
                distribution, guess = agent(state[part])
                difference = distribution.log_prob(action[part]) - old[part]
                ratio = difference.exp()
                policy_loss = -torch.min(ratio * gain[part], ratio.clamp(0.8, 1.2) * gain[part]).mean()
                value_loss = (guess - returns[part]).pow(2).mean()
                loss = policy_loss + 0.5 * value_loss - 0.001 * distribution.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
                updates += 1
                kl = (ratio - 1 - difference).mean().item()
            if kl > TARGET_KL:
                break
        schedule.step()
        metrics = {
            "loss/policy": policy_loss.item(),
            "loss/value": value_loss.item(),
            "ppo/approx_kl": kl,
            "ppo/updates": updates,
            "ppo/std": agent.log_std.exp().item(),
            "reward/mean": torch.cat(rewards).mean().item(),
            "lr": schedule.get_last_lr()[0],
            "time/iteration": time.monotonic() - begin,
        }
        for name, one in metrics.items():
            writer.add_scalar(name, one, iteration)
        print(f"{iteration}: " + " ".join(f"{name}={one:.4g}" for name, one in metrics.items()), flush=True)
    writer.close()
    environments.close()


if __name__ == "__main__":
    main()
