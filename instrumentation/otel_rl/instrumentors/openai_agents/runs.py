"""Runs of ``Runner``: workflows, each a trajectory unless something else is one around it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from otel_rl.agents.runs import AgentRun, workflow
from otel_rl.instrumentors.coexistence import is_active
from otel_rl.instrumentors.followed_calls import follow
from otel_rl.telemetry import Scope, open_trajectory

if TYPE_CHECKING:
    from contextvars import Token
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

scope = Scope("openai_agents")
#: The library's own default of ``RunConfig.workflow_name``.
_UNNAMED = "Agent workflow"


class WorkflowRun(AgentRun):
    """A run; ``handoff_source`` is the agent that has handed over to the one that begins next."""

    handoff_source: str | None = None

    def __init__(self, name: str, conversation: str | None) -> None:
        # A run inside of another trajectory, such as an agent as a tool, adds nothing to the spans of its agents.
        has_span = open_trajectory.current() is None and not is_taken()
        super().__init__(scope, workflow(name, conversation), has_span=has_span)
        self._before: Token[WorkflowRun | None] | None = current.set(self)

    def leave(self) -> None:
        """See the base class."""
        super().leave()
        before, self._before = self._before, None
        if before is not None:
            with suppress(ValueError):  # left in another task
                current.reset(before)


current: ContextVar[WorkflowRun | None] = ContextVar("otel_rl_openai_agents_run", default=None)


def patch_runner(module: ModuleType, patches: Patches) -> None:
    """Follow ``Runner.run`` and ``Runner.run_sync``, which end here."""
    follow(patches, module, "AgentRunner.run", _begins, required=True)


def patch_streamed_runs(module: ModuleType, patches: Patches) -> None:
    """Follow the task behind ``Runner.run_streamed``, which goes on when the program reads no more."""
    follow(patches, module, "start_streaming", _begins, required=True)


def _begins(given: Mapping[str, Any]) -> WorkflowRun | None:
    if not scope.enabled:
        return None
    options = given.get("kwargs", given)
    config = options.get("run_config")
    settings = config if isinstance(config, Mapping) else vars(config) if config is not None else {}
    conversation = options.get("conversation_id") or getattr(options.get("session"), "session_id", None)
    return WorkflowRun(settings.get("workflow_name") or _UNNAMED, conversation or settings.get("group_id"))


def is_taken() -> bool:
    """Return whether the official instrumentor is active."""
    return is_active("opentelemetry.instrumentation.genai.openai_agents", "OpenAIAgentsInstrumentor")
