"""Wrappers of torch's ``SummaryWriter``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.instrumentors import summary_writers
from otel_rl.training.scalars import Source
from otel_rl.training.trackers import Tracker

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

tracker = Tracker("tensorboard", Source.TENSORBOARD)


def patch_writer(module: ModuleType, patches: Patches) -> None:
    """Patch the writer."""
    summary_writers.patch(module, patches, tracker)
