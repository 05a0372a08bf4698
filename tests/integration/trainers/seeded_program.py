"""Trains as `examples/grpo_two_ranks.py` does and writes what must not depend on who watches: values and random states.

PYTHONPATH=examples torchrun --nproc-per-node=2 seeded_program.py STEPS OUTPUT_DIR
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import sys
from pathlib import Path

import numpy as np
import torch
from grpo_two_ranks import end_process_group, train

#: What depends on the clock.
TIMES = ("step_time", "runtime", "per_second")


def digest(state: object) -> str:
    return hashlib.sha256(pickle.dumps(state)).hexdigest()


def train_and_write(steps: int, output: Path) -> None:
    trainer = train(steps, output)
    history = [
        {key: value for key, value in entry.items() if not any(word in key for word in TIMES)}
        for entry in trainer.state.log_history
    ]
    result = {
        "history": history,
        "random": digest(random.getstate()),
        "numpy": digest(np.random.get_state()),  # noqa: NPY002 - the state that seeds set
        "torch": digest(torch.get_rng_state().numpy().tobytes()),
        "weights": digest([parameter.detach().numpy().tobytes() for parameter in trainer.model.parameters()]),
        "callbacks": [type(callback).__name__ for callback in trainer.callback_handler.callbacks],
    }
    (output / f"result-{os.environ['RANK']}.json").write_text(json.dumps(result))


def main() -> None:
    train_and_write(int(sys.argv[1]), Path(sys.argv[2]))
    end_process_group()


if __name__ == "__main__":
    main()
