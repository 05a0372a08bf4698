"""Instrumentation of Trackio: what a run logs, and its configuration."""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class TrackioInstrumentor(Instrumentor):
    """Patches the run."""

    requirements: ClassVar = ("trackio >= 0.25, < 1",)
    modules: ClassVar = {"trackio.run": "patch:patch_run"}
