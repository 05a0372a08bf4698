"""The wrappers around ``langchain_core`` and ``langgraph``.

Runs are observed at the callback managers, not by a handler of ours among the program's. A handler would show in the
program's own lists, be copied and pickled with its configurations, and change the order of its callbacks:
``AsyncCallbackManager.on_llm_start`` of langchain-core 1.7.2 skips all other handlers where one has ``run_inline``.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.langchain import chains, errors, graph_rewards, models, other_instrumentors, runs, tools
from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextvars import Context
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


def patch_callback_managers(module: ModuleType, patches: Patches) -> None:
    """Patch ``langchain_core.callbacks.manager``: every run begins and ends at one of its managers."""
    for prefix in ("", "Async"):
        patches.observe(module, f"{prefix}CallbackManager.on_chain_start", after=_started, required=True)
        for start in ("on_chat_model_start", "on_llm_start"):
            patches.observe(module, f"{prefix}CallbackManager.{start}", after=_models_began, required=True)
        run = f"{prefix}CallbackManagerForChainRun"
        patches.observe(module, f"{run}.on_chain_end", before=_returned, required=True)
        patches.observe(module, f"{run}.on_chain_error", before=_raised, required=True)


def _models_began(managers: Any, *_: Any, **__: Any) -> None:
    chains.models_began(managers)
    other_instrumentors.announce_model_call(managers)


def _started(
    manager: Any,
    _: Any,
    serialized: dict[str, Any] | None,
    inputs: Any,
    *__: Any,
    name: str | None = None,
    run_type: str | None = None,
    **___: Any,
) -> None:
    chains.started(manager, name, serialized, inputs, run_type)


def _returned(manager: Any, outputs: Any, **_: Any) -> None:
    chains.returned(manager.run_id, outputs)


def _raised(manager: Any, error: BaseException, **_: Any) -> None:
    chains.raised(manager.run_id, error)


def patch_config_context(module: ModuleType, patches: Patches) -> None:
    """Put the run's span into the context of the body of a run."""
    if hasattr(module, "set_config_context"):
        patches.replace(module, "set_config_context", _sets_config_context)
    else:
        # langchain-core 0.3.40 calls this one in the context that it has made for the body.
        patches.observe(module, "_set_config_context", after=_entered)


def _entered(_: Any, config: Any, *__: Any) -> None:
    runs.enter_for(config)


def patch_graph_context(module: ModuleType, patches: Patches) -> None:
    """Do the same for nodes of LangGraph 0.6 and later, which has a function of its own."""
    patches.replace(module, "set_config_context", _sets_config_context, required=True)


def _sets_config_context(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    @contextmanager
    def set_config_context(config: Any, *args: Any, **kwargs: Any) -> Iterator[Context]:
        with original(config, *args, **kwargs) as context:
            with guard("langchain.config_context"):
                context.run(runs.enter_for, config)
            yield context

    return set_config_context


def patch_chat_models(module: ModuleType, patches: Patches) -> None:
    """Patch ``langchain_core.language_models.chat_models``."""
    for name in ("_generate_with_cache", "_agenerate_with_cache"):
        patches.observe(module, f"BaseChatModel.{name}", begin=models.begin_chat, end=models.end, required=True)


def patch_completion_models(module: ModuleType, patches: Patches) -> None:
    """Patch ``langchain_core.language_models.llms``."""
    for name in ("_generate_helper", "_agenerate_helper"):
        patches.observe(module, f"BaseLLM.{name}", begin=models.begin_completion, end=models.end, required=True)


def patch_graph_loop(module: ModuleType, patches: Patches) -> None:
    """Patch ``langgraph.pregel._loop``, before langgraph 0.6 ``langgraph.pregel.loop``."""
    patches.observe(module, "PregelLoop._suppress_interrupt", after=graph_rewards.graph_left, required=True)


def patch_tools(module: ModuleType, patches: Patches) -> None:
    """Patch ``langchain_core.tools.base``."""
    patches.observe(module, "BaseTool.run", begin=tools.begin, end=tools.end, required=True)
    patches.observe(module, "BaseTool.arun", begin=tools.begin, end=tools.end, required=True)
    patches.observe(module, "_format_output", before=errors.formatted)
    for handle in ("_handle_validation_error", "_handle_tool_error"):
        patches.observe(module, handle, before=errors.excused)


def patch_tool_node(module: ModuleType, patches: Patches) -> None:
    """Patch ``langgraph.prebuilt.tool_node``."""
    patches.observe(module, "ToolNode._validate_tool_call", after=tools.validated, required=True)
