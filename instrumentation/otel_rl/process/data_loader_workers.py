"""Detects PyTorch DataLoader workers, which must not record: a program often starts hundreds of them."""

from __future__ import annotations

import sys


def is_data_loader_worker() -> bool:
    """Return whether this is a PyTorch DataLoader worker, however it was started; imports nothing."""
    module = sys.modules.get("torch.utils.data._utils.worker")
    return getattr(module, "_worker_info", None) is not None
