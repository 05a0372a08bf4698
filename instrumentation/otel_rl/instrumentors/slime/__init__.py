"""Instrumentation of slime: the loop of its driver, its values, and the rollouts of its manager.

The driver's program is a script that calls actors of Ray: ``RolloutManager.generate`` and ``RayTrainGroup.async_train``
have the number of the step, and what it waits for are its phases. The manager runs the rollouts, and logs; the ranks
that train log, too, and time their log-probabilities. Requests to SGLang are those of ``httpx``, and of ``requests``
where they bring weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from otel_rl.instrumentors.base import Instrumentor

if TYPE_CHECKING:
    from collections.abc import Collection


class SlimeInstrumentor(Instrumentor):
    """Patches what the driver calls, the rollouts, the timer and the log function."""

    requirements: ClassVar = ("slime >= 0.3.1, < 0.4",)
    needs = ("ray", "httpx", "requests")
    training: ClassVar = {
        "steps": "known",
        "phases": "what its driver waits for, and log-probabilities",
        "values": "what `logging_utils.log` gets",
    }
    modules: ClassVar = {
        "slime.rollout.sample_hooks": "patch:patch_sample_hooks",
        "slime.rollout.rm_hub": "patch:patch_rewards",
        "slime.rollout.sglang_rollout": "patch:patch_rollouts",
        "slime.observability.timer": "patch:patch_timer",
        "slime.observability.logging_utils": "patch:patch_log",
        # Of 0.3.1 as it was released.
        "slime.utils.timer": "patch:patch_timer",
        "slime.utils.logging_utils": "patch:patch_log",
        "slime.ray.actor_group": "patch:patch_actor_group",
        "slime.ray.placement_group": "patch:patch_placement_group",
    }

    @classmethod
    def triggers(cls) -> tuple[str, ...]:
        """Return its modules alone: ``slime`` of PyPI is another project, which has none of them."""
        return tuple(cls.modules)

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the supported versions; none for a checkout on the path, which is no distribution."""
        from importlib.metadata import distributions  # noqa: PLC0415 - needed with slime only

        return self.supported() if any(distributions(name=self.library)) else ()
