"""The wrappers around ``langchain_core`` and ``langgraph``.

Runs are observed at the callback managers, not by a handler of ours among the program's. A handler would show in the
program's own lists, be copied and pickled with its configurations, and change the order of its callbacks:
``AsyncCallbackManager.on_llm_start`` of langchain-core 1.7.2 skips all other handlers where one has ``run_inline``.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.langchain import chains, graph_rewards, runs
from otel_rl.instrumentors.patch_functions import observing, together
from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextvars import Context
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


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


#: Every run begins and ends at one of these managers.
patch_callback_managers = together(
    observing("CallbackManager.on_chain_start", "AsyncCallbackManager.on_chain_start", after=chains.started),
    observing(
        "CallbackManager.on_chat_model_start",
        "CallbackManager.on_llm_start",
        "AsyncCallbackManager.on_chat_model_start",
        "AsyncCallbackManager.on_llm_start",
        after=chains.models_began,
    ),
    observing(
        "CallbackManagerForChainRun.on_chain_end",
        "AsyncCallbackManagerForChainRun.on_chain_end",
        before=chains.returned,
    ),
    observing(
        "CallbackManagerForChainRun.on_chain_error",
        "AsyncCallbackManagerForChainRun.on_chain_error",
        before=chains.raised,
    ),
)
patch_graph_loop = observing("PregelLoop._suppress_interrupt", after=graph_rewards.graph_left)
