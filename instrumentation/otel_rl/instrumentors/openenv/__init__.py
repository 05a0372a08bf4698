"""Clients of OpenEnv's environments, which run in a process or container of their own.

Each request is a tool call, in a rollout and outside of one: a step that fails, times out or is slow is one of a tool.
Episodes count as those of Gymnasium do. Their rewards are a metric of the rollout, whose program decides on its reward.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class OpenEnvInstrumentor(Instrumentor):
    """Patches the requests of the client that all environments have in common."""

    requirements: ClassVar = ("openenv >= 0.2.3, < 1",)
    builds: ClassVar = ("openenv-core",)
    modules: ClassVar = {"openenv.core.env_client": "patch:patch_client"}
