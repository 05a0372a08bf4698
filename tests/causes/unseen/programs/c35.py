"""PPO whose policy is evaluated now and then."""

from __future__ import annotations

import sb3
from bugs import now
from stable_baselines3.common.callbacks import EvalCallback


class Careful(EvalCallback):
    """Evaluates more episodes when the policy becomes good."""

    def _on_step(self) -> bool:
        if now["step"] >= 19:
            self.n_eval_episodes = 10
        return super()._on_step()


sb3.EvalCallback = Careful

if __name__ == "__main__":
    sb3.main()
