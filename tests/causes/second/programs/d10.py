"""PPO on CartPole with Gymnasium; TensorBoard."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

ITERATIONS = 90
ENVIRONMENTS = 4
HORIZON = 128
EPOCHS = 4
MINIBATCHES = 4
ENT_COEF_START = 0.2
ENT_COEF_DECAY = 0.005


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, states: torch.Tensor) -> tuple[torch.distributions.Categorical, torch.Tensor]:
        return torch.distributions.Categorical(logits=self.actor(states)), self.critic(states)[..., 0]


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(7)
    environments = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1") for _ in range(ENVIRONMENTS)])
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3, eps=1e-5)
    writer = SummaryWriter("runs/ppo")
    observation, _ = environments.reset(seed=7)
    running = np.zeros(ENVIRONMENTS)
    finished: list[float] = [20.0]
    for iteration in range(ITERATIONS):
        begin = time.monotonic()
        ent_coef = ENT_COEF_START - ENT_COEF_DECAY * iteration
        rows: dict[str, list[torch.Tensor]] = {
            name: [] for name in ("state", "action", "logp", "value", "reward", "done")
        }
        for _ in range(HORIZON):
            state = torch.as_tensor(observation, dtype=torch.float32)
            with torch.no_grad():
                distribution, value = agent(state)
                action = distribution.sample()
            observation, reward, terminated, truncated, _ = environments.step(action.numpy())
            done = terminated | truncated
            running += reward
            finished += running[done].tolist()
            running[done] = 0
            for name, one in zip(
                rows,
                (state, action, distribution.log_prob(action), value, torch.as_tensor(reward), torch.as_tensor(done)),
                strict=True,
            ):
                rows[name].append(one.float() if name != "action" else one)
        data = {name: torch.stack(one) for name, one in rows.items()}
        with torch.no_grad():
            _, following = agent(torch.as_tensor(observation, dtype=torch.float32))
        advantages = torch.zeros(HORIZON, ENVIRONMENTS)
        last = torch.zeros(ENVIRONMENTS)
        for place in reversed(range(HORIZON)):
            alive = 1 - data["done"][place]
            after = following if place == HORIZON - 1 else data["value"][place + 1]
            last = data["reward"][place] + 0.99 * after * alive - data["value"][place] + 0.99 * 0.95 * alive * last
            advantages[place] = last
        flat = {name: one.flatten(0, 1) for name, one in data.items()}
        flat["advantage"] = advantages.flatten()
        returns = flat["advantage"] + flat["value"]
        sums = np.zeros(4)
        for _ in range(EPOCHS):
            for part in torch.randperm(HORIZON * ENVIRONMENTS).chunk(MINIBATCHES):
                distribution, value = agent(flat["state"][part])
                ratio = (distribution.log_prob(flat["action"][part]) - flat["logp"][part]).exp()
                gain = flat["advantage"][part]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                policy_loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
                value_loss = (value - returns[part]).pow(2).mean()
                entropy = distribution.entropy().mean()
                loss = policy_loss + 0.5 * value_loss - ent_coef * entropy
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
                sums += np.array(
                    [
                        policy_loss.item(),
                        value_loss.item(),
                        entropy.item(),
                        ((ratio - 1).abs() > 0.2).float().mean().item(),
                    ]
                )
        policy_mean, value_mean, entropy_mean, clipped = sums / (EPOCHS * MINIBATCHES)
        for name, one in {
            "losses/policy_loss": policy_mean,
            "losses/value_loss": value_mean,
            "losses/entropy": entropy_mean,
            "losses/clipfrac": clipped,
            "charts/ent_coef": ent_coef,
            "charts/episodic_return": float(np.mean(finished[-20:])),
            "charts/seconds": time.monotonic() - begin,
        }.items():
            writer.add_scalar(name, one, iteration)
        if iteration % 5 == 0:
            print(
                f"iteration={iteration} return={np.mean(finished[-20:]):.1f} entropy={entropy_mean:.3f} "
                f"value_loss={value_mean:.2f} seconds={time.monotonic() - begin:.2f}",
                flush=True,
            )
    writer.close()
    environments.close()


if __name__ == "__main__":
    main()
