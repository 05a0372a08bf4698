"""PyTorch's compiler on this machine: whether it can link what it has compiled.

https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/cpp_builder.py quotes the folders of headers, and not
those of libraries (`-L`).
"""

from __future__ import annotations

import importlib.util

import pytest


def can_link() -> bool:
    """Return whether the path of torch, which the compiler passes to the linker unquoted, has no space."""
    torch = importlib.util.find_spec("torch")
    return torch is None or " " not in str(torch.origin)


#: Marks a test whose program is compiled by `inductor`; tracing alone, as with the backend `eager`, links nothing.
LINKS = pytest.mark.skipif(
    not can_link(), reason="PyTorch's compiler cannot link where the path of torch has a space (`-L` is unquoted)"
)
