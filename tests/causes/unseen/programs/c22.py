"""A reward model, whose figures go to a dashboard."""

from __future__ import annotations

import lightning_fit
from bugs import now, wait


class Model(lightning_fit.RewardModel):
    """Sends its figures in batches."""

    def on_train_batch_end(self, *args) -> None:
        if now["step"] >= 20 and now["step"] % 5 == 0:
            wait(0.7, 0.1)


lightning_fit.RewardModel = Model

if __name__ == "__main__":
    lightning_fit.main()
