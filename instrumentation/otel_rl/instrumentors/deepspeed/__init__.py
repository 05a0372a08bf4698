"""Instrumentation of DeepSpeed, for programs that write their loop with its engine themselves.

The engine knows its steps: one is over when ``global_steps`` has grown. Its forward and backward passes, its update and
its checkpoints are phases. What its monitors get becomes metrics and events. Beneath a trainer of Transformers,
Lightning or the like nothing is added: the trainer says what its steps are, and names itself as the system.

DeepSpeed's own log of collectives waits for the device at each of them, and is left off.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class DeepSpeedInstrumentor(Instrumentor):
    """Patches the engine, which pipelines derive from, and what feeds the monitors."""

    requirements: ClassVar = ("deepspeed >= 0.16, < 1",)
    needs = ("torch_training",)
    training: ClassVar = {
        "steps": "known",
        "phases": "data wait, forward, backward, optimizer, checkpoint",
        "values": "what its monitors get; loss, learning rate and gradient norm",
    }
    modules: ClassVar = {
        "deepspeed.runtime.engine": "patch:patch_engine",
        "deepspeed.monitor.monitor": "patch:patch_monitor",
    }
