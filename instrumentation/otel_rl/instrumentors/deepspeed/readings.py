"""What is read of an engine; none of it computes on a device or waits for one."""

from __future__ import annotations

from typing import Any


def steps_made(engine: Any) -> int:
    """Return the number of the latest step."""
    made: int = engine.global_steps
    return made


def size(engine: Any) -> int:
    """Return the number of parameters; of those that ZeRO has partitioned, ``ds_numel`` is the number before."""
    return sum(getattr(parameter, "ds_numel", parameter.numel()) for parameter in engine.module.parameters())


def first_parameter(engine: Any) -> object:
    """Return the first parameter; the engine itself where it has none."""
    return next(iter(engine.module.parameters()), engine)


def optimizer(engine: Any) -> Any:
    """Return the optimizer, DeepSpeed's or the program's: both have groups of parameters."""
    return engine.optimizer


def gradient_norm(engine: Any) -> Any:
    """Return the norm of the latest step; None where this configuration computes none."""
    return engine.get_global_grad_norm()
