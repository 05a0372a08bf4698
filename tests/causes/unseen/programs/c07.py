"""Two ranks with FSDP that save what they have seen, too."""

from __future__ import annotations

import fsdp
import torch
import torch.distributed.checkpoint as dcp
from bugs import wait
from torch.distributed.checkpoint.state_dict import get_model_state_dict

import otel_rl


def save(model, number: int) -> None:
    with otel_rl.phase("checkpoint"):
        state = get_model_state_dict(model)
        state["seen"] = torch.zeros(150_000 if number < 16 else 150_000 * (number - 14))
        dcp.save(state, checkpoint_id=f"checkpoints/{number}")
        wait(0.03 if number < 16 else 0.03 * (number - 14))


fsdp.save = save

if __name__ == "__main__":
    fsdp.main()
