"""Runs of ``Runner``: workflows, each a trajectory unless something else is one around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_rl.agents.workflows import WorkflowRun
from otel_rl.instrumentors.coexistence import is_active
from otel_rl.instrumentors.followed_calls import following
from otel_rl.telemetry import Scope, open_trajectory

scope = Scope("openai_agents")
#: The library's own default of ``RunConfig.workflow_name``.
_UNNAMED = "Agent workflow"


def _begins(given: Mapping[str, Any]) -> WorkflowRun:
    options = given.get("kwargs", given)
    config = options.get("run_config")
    settings = config if isinstance(config, Mapping) else vars(config) if config is not None else {}
    conversation = options.get("conversation_id") or getattr(options.get("session"), "session_id", None)
    # A run inside of another trajectory, such as an agent as a tool, adds nothing to the spans of its agents.
    has_span = open_trajectory.current() is None and not is_taken()
    name = settings.get("workflow_name") or _UNNAMED
    run = WorkflowRun(scope, name, conversation or settings.get("group_id"), has_span=has_span)
    if name == _UNNAMED:
        run.name_row(given["starting_agent"].name)
    return run


def is_taken() -> bool:
    """Return whether the official instrumentor is active."""
    return is_active("opentelemetry.instrumentation.genai.openai_agents", "OpenAIAgentsInstrumentor")


#: ``Runner.run`` and ``Runner.run_sync`` end here.
patch_runner = following("AgentRunner.run", begin=_begins)
#: The task behind ``Runner.run_streamed``, which goes on when the program reads no more.
patch_streamed_runs = following("start_streaming", begin=_begins)
