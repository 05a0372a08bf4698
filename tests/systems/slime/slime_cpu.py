"""slime on a machine without a GPU: `install` in each process of the cluster, before slime looks for an accelerator.

A backend of its own for slime's accelerators, and the functions of `torch.cuda` that Megatron calls.
"""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from typing import Any

import torch
from msgspec.structs import fields as struct_fields

CPU = torch.device("cpu")


class _Stream:
    """A stream or an event that does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take any options."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def _on_cpu(function: Any) -> Any:
    def moved(*args: Any, **kwargs: Any) -> Any:
        args = tuple(CPU if isinstance(one, str) and one.startswith("cuda") else one for one in args)
        if str(kwargs.get("device")).startswith("cuda"):
            kwargs["device"] = CPU
        kwargs.pop("pin_memory", None)
        return function(*args, **kwargs)

    return moved


def _answering(answer: Any) -> Any:
    return lambda *_, **__: answer


def install() -> None:
    """Make the CPU the accelerator."""
    _install_accelerator()
    _install_cuda()


def _install_accelerator() -> None:
    from slime.utils import accelerator
    from slime.utils.accelerator.base import Accelerator

    class Processor(Accelerator):
        name = device_type = "cpu"
        communication_backend_name = "gloo"
        visible_devices_env = "CUDA_VISIBLE_DEVICES"

        def stream(self, _: Any) -> Any:
            return nullcontext()

    answers = {
        **dict.fromkeys(("is_available", "supports"), True),
        **dict.fromkeys(("device_name", "current_device"), "cpu"),
        **dict.fromkeys(("set_device", "synchronize", "current_stream", "empty_cache", "distributed_device_id")),
        **dict.fromkeys(("memory_allocated", "memory_reserved"), 0),
        "device": CPU,
        "device_count": 1,
        # So much that slime collects no garbage before each collective.
        "mem_get_info": (1 << 36, 1 << 37),
    }
    for name, answer in answers.items():
        setattr(Processor, name, _answering(answer))
    Processor.__abstractmethods__ = frozenset()
    accelerator.set_accelerator(Processor())


def _install_cuda() -> None:
    # SGLang 0.5.23 has its options in a struct, the version that slime names in a data class.
    fields = dataclasses.fields
    dataclasses.fields = lambda kind: struct_fields(kind) if hasattr(kind, "__struct_fields__") else fields(kind)
    cuda = torch.cuda
    cuda.current_device = lambda: CPU
    for name in ("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "manual_seed", "ipc_collect"):
        setattr(cuda, name, lambda *_, **__: None)
    cuda.device_count = lambda: 1
    cuda.get_rng_state = cuda.random.get_rng_state = lambda *_, **__: torch.get_rng_state()
    cuda.set_rng_state = lambda state, *_: torch.set_rng_state(state)
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.memory_allocated = cuda.max_memory_allocated = cuda.memory_reserved = lambda *_: 0
    cuda.Stream, cuda.Event, cuda.stream = _Stream, _Stream, lambda *_: nullcontext()
    cuda.current_stream = cuda.default_stream = lambda *_: _Stream()
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda this, *_, **__: this
    for name in ("tensor", "as_tensor", "zeros", "ones", "empty", "full", "arange", "zeros_like", "empty_like"):
        setattr(torch, name, _on_cpu(getattr(torch, name)))
    torch.Tensor.to = _on_cpu(torch.Tensor.to)
    # Megatron tells precisions by the names of types.
    name_of = torch.Tensor.type
    torch.Tensor.type = lambda this, *given, **options: (
        name_of(this, *given, **options) if given or options else name_of(this).replace("torch.", "torch.cuda.")
    )
