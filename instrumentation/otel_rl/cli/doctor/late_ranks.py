"""Whether the ranks that the others wait for can be named: with gloo always, with NCCL where PyTorch times it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.cli.doctor.installed_instrumentors import READY
from otel_rl.instrumentors.torch_distributed import nccl_timing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.core.settings import Settings

_INSTRUMENTOR = "otel_rl_torch_distributed"


def state(
    configured: Settings, environ: Mapping[str, str], instrumentors: Mapping[str, Mapping[str, Any]]
) -> tuple[str, list[str]]:
    """Return a sentence, and problems; an empty one where nothing of ``torch.distributed`` is recorded."""
    instrumentor = instrumentors.get(_INSTRUMENTOR, {})
    if instrumentor.get("state") != READY:
        return "", []
    if configured.nccl_timing == "off":
        return "named with gloo; nothing can be said of who is late on NCCL without OTEL_RL_NCCL_TIMING=on", []
    if refused := nccl_timing.refusal(environ):
        return "named with gloo", [f"OTEL_RL_NCCL_TIMING=on has no effect: {refused} keeps the times from being read"]
    version = str(instrumentor.get("installed") or "").removeprefix("torch ")
    if not nccl_timing.can_be_asked(version):
        return "named with gloo", [f"OTEL_RL_NCCL_TIMING=on has no effect: torch {version} cannot be asked, 2.8 can"]
    return "named with gloo and with NCCL", []
