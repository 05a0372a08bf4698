"""Wrappers of ``wandb``: a run logs values, and is given its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.training import open_trackers
from otel_rl.training.scalars import Source
from otel_rl.training.trackers import Tracker

if TYPE_CHECKING:
    from contextvars import Token
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

tracker = Tracker("wandb", Source.WANDB, separator=".")
#: Key of the configuration under which wandb keeps what it needs itself.
_INTERNAL = "_wandb"


def patch_run(module: ModuleType, patches: Patches) -> None:
    """Patch the run. Its configuration is there when it has been made, and each change passes the callback."""
    patches.observe(module, "Run._log", begin=_log_begins, end=tracker.end, required=True)
    patches.observe(module, "Run.__init__", after=_made, required=True)
    patches.observe(module, "Run._config_callback", before=_configuration_changes)
    patches.observe(module, "Run.finish", before=lambda run, *_, **__: open_trackers.closing("wandb", run))


def _log_begins(run: Any, data: Any, step: Any = None, *_: Any, **__: Any) -> Token[object] | None:
    open_trackers.note("wandb", run)
    # 0.29 has renamed it. Asking for the public `step` waits for another process.
    counter = getattr(run, "_local_step", None)
    return tracker.begin(data, step, getattr(run, "_step", None) if counter is None else counter)


def _made(_: None, run: Any, *__: Any, **___: Any) -> None:
    _record(run._config.as_dict())  # noqa: SLF001 - the public one asks whether the run is attached


def _configuration_changes(_: Any, key: Any = None, val: Any = None, data: Any = None) -> None:
    if data is not None:
        _record(data)
    elif isinstance(key, str):
        _record({key: val})


def _record(values: Any) -> None:
    tracker.parameters({key: value for key, value in values.items() if key != _INTERNAL})
