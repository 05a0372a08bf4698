"""Alibaba Cloud Model Studio: calls of its client, and the rollouts and rewards of its agentic RL.

==============  ===================================================================
``client``      model calls: one hook below all classes of the client
``answers``     answers and chunks of the client in the form of OpenAI's protocol
``processors``  classes of the program that make rollouts and score them
``decorators``  spans that the package's own decorators record for these calls
==============  ===================================================================
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor

_COMPONENT = "dashscope.finetune.reinforcement.component"


class DashScopeInstrumentor(Instrumentor):
    """Instruments the ``dashscope`` package."""

    library: ClassVar[str] = "dashscope"
    requirements: ClassVar = ("dashscope >= 2.0.2, < 3",)
    modules: ClassVar = {
        "dashscope.client.base_api": "client:patch_base_api",
        f"{_COMPONENT}.processor.abstract_processor": "processors:patch_processors",
        f"{_COMPONENT}.processor.abstract_reward_processor": "processors:patch_rewards",
        f"{_COMPONENT}.observability.processor_span": "decorators:patch_processor_span",
        f"{_COMPONENT}.observability.genai.tools": "decorators:patch_tools",
    }
