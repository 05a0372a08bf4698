"""A training loop in one file, as those of CleanRL: vector, statistics wrapper, rollout buffer, updates of a policy."""

import hashlib
import random

import gymnasium
import numpy as np
import torch

NUM_ENVS, NUM_STEPS, ITERATIONS = 2, 64, 3
random.seed(1)
np.random.seed(1)  # noqa: NPY002 - as such files do
torch.manual_seed(1)
torch.set_num_threads(1)

envs = gymnasium.vector.SyncVectorEnv(
    [lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1")) for _ in range(NUM_ENVS)]
)
policy = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
observation, _ = envs.reset(seed=1)
returns = []
for _ in range(ITERATIONS):
    log_probabilities, rewards = [], []
    for _ in range(NUM_STEPS):
        choice = torch.distributions.Categorical(logits=policy(torch.as_tensor(observation, dtype=torch.float32)))
        action = choice.sample()
        observation, reward, terminations, truncations, infos = envs.step(action.numpy())
        log_probabilities.append(choice.log_prob(action))
        rewards.append(torch.as_tensor(reward))
        if "episode" in infos:
            returns += infos["episode"]["r"][infos["_episode"]].tolist()
    loss = -(torch.stack(log_probabilities) * torch.stack(rewards)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = b"".join(value.numpy().tobytes() for value in policy.state_dict().values())
print(hashlib.sha256(weights).hexdigest(), returns)
