"""Versions of PyTorch whose ``torch.distributed`` we patch."""

REQUIREMENT = "torch >= 2.4, < 3"
