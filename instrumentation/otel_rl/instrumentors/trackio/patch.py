"""Wrappers of ``trackio``: a run logs values, and is given its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.training import open_trackers
from otel_rl.training.scalars import Source
from otel_rl.training.trackers import Tracker

if TYPE_CHECKING:
    from contextvars import Token
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

tracker = Tracker("trackio", Source.TRACKIO)


def patch_run(module: ModuleType, patches: Patches) -> None:
    """Patch the run."""
    patches.observe(module, "Run.log", begin=_log_begins, end=tracker.end, required=True)
    patches.observe(module, "Run.__init__", after=_made, required=True)
    patches.observe(module, "Run.finish", before=lambda run, *_, **__: open_trackers.closing("trackio", run))


def _log_begins(run: Any, metrics: Any, step: Any = None) -> Token[object] | None:
    open_trackers.note("trackio", run)
    return tracker.begin(metrics, step, getattr(run, "_next_step", None))


def _made(_: None, run: Any, *__: Any, **___: Any) -> None:
    # Trackio adds what it needs itself under keys that a program may not use.
    tracker.parameters({key: value for key, value in run.config.items() if not str(key).startswith("_")})
