"""Episodes of Gymnasium's environments: how many, their return, length and success, and the steps of all.

An environment is followed from its first reset on, at its innermost layer: rewards are those before all wrappers, and
whatever vector, wrapper or trainer steps it, each step counts once. Where other processes step the environments
(``AsyncVectorEnv``) the one that trains counts.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class GymnasiumInstrumentor(Instrumentor):
    """Patches the reset of all environments, and by it the step of each class of them."""

    requirements: ClassVar = ("gymnasium >= 1, < 2",)
    modules: ClassVar = {
        "gymnasium.core": "patch:patch_core",
        "gymnasium.wrappers.common": "patch:patch_common",
        "gymnasium.vector.vector_env": "vectors:patch_vector_env",
        "gymnasium.vector.async_vector_env": "vectors:patch_async_vector_env",
    }
