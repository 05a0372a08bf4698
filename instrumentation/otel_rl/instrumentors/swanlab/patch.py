"""Wrappers of ``swanlab``: a run logs values, and is given its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.training.scalars import Source
from otel_rl.training.trackers import Tracker

if TYPE_CHECKING:
    from contextvars import Token
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

tracker = Tracker("swanlab", Source.SWANLAB)


def patch_run(module: ModuleType, patches: Patches) -> None:
    """Patch the run: ``log``, ``async_log`` and those of one value each pass ``_log_impl``."""
    patches.observe(module, "Run._log_impl", begin=_log_begins, end=tracker.end, required=True)


def patch_config(module: ModuleType, patches: Patches) -> None:
    """Each change of the configuration is written whole."""
    patches.observe(module, "Config._flush", before=_written)


def _log_begins(run: Any, data: Any, step: Any = None) -> Token[object] | None:
    last = getattr(getattr(run, "_ctx", None), "_global_step", None)
    return tracker.begin(data, step, last + 1 if type(last) is int else None)


def _written(config: Any) -> None:
    tracker.parameters(dict(config))
