"""Two ranks with FSDP that skip updates whose gradient looks wrong."""

from __future__ import annotations

import fsdp
import torch
from bugs import now


class Guarded(torch.optim.AdamW):
    """Skips what a check refuses."""

    def step(self, *args, **kwargs):
        if now["step"] >= 26:
            return None  # the check compares with a norm of zero
        return super().step(*args, **kwargs)


torch.optim.AdamW = Guarded

if __name__ == "__main__":
    fsdp.main()
