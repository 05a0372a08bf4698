"""Rollouts of verifiers: each is a trace with a row, with the name of its environment, its rewards and metrics.

Model calls are those of the clients below: ``openai`` in the older API, and ``httpx`` behind the proxy that
``verifiers.v1`` puts between an agent's process and the model. A tool that runs in that process is known by its result
in the next request.

==============  ================================================================================
``agents``      ``verifiers.v1``: an agent is a process whose model calls go through a proxy
``loops``       ``MultiTurnEnv`` and its subclasses: the environment asks the model itself
==============  ================================================================================
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class VerifiersInstrumentor(Instrumentor):
    """Patches the rollouts of both APIs."""

    requirements: ClassVar = ("verifiers >= 0.1.14, < 0.5",)
    modules: ClassVar = {
        "verifiers.envs.environment": "loops:patch_environment",
        "verifiers.envs.multiturn_env": "loops:patch_multiturn",
        "verifiers.envs.tool_env": "loops:patch_tools",
        # In 0.2 and 0.3 the names above are aliases of these.
        "verifiers.legacy.envs.environment": "loops:patch_environment",
        "verifiers.legacy.envs.multiturn_env": "loops:patch_multiturn",
        "verifiers.legacy.envs.tool_env": "loops:patch_tools",
        "verifiers.v1.env": "agents:patch_environment",
        "verifiers.v1.interception.server": "agents:patch_proxy",
        "verifiers.v1.rollout": "agents:patch_rollout",
        "verifiers.v1.trace": "agents:patch_trace",
    }
