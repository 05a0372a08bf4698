"""The wrappers around ``langchain_core`` and ``langgraph``.

The handler comes in through ``CallbackManager.configure``, the one public function that every run passes.
LangChain's own ``register_configure_hook`` would do the same, but knows no way back, and uninstrumenting has to leave
nothing behind.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.langchain import runs, tools
from otel_rl.telemetry import Scope, guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextvars import Context
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

_scope = Scope("langchain")


def patch_callback_managers(module: ModuleType, patches: Patches) -> None:
    """Patch ``langchain_core.callbacks.manager``: every configured manager gets our handler."""
    # It subclasses a class of LangChain, which is imported by now and not before.
    from otel_rl.instrumentors.langchain.handler import SpanHandler  # noqa: PLC0415

    handler = SpanHandler()

    def configures(original: classmethod[Any, Any, Any]) -> classmethod[Any, Any, Any]:
        function = original.__func__

        @functools.wraps(function)
        def configure(cls: type, *args: Any, **kwargs: Any) -> Any:
            manager = function(cls, *args, **kwargs)
            with guard("langchain.configure"):
                # By type: a copied or unpickled configuration carries a copy of it.
                if _scope.enabled and not any(type(h) is SpanHandler for h in manager.handlers):
                    manager.add_handler(handler, True)
            return manager

        return classmethod(configure)

    patches.replace(module.CallbackManager, "configure", configures)
    patches.replace(module.AsyncCallbackManager, "configure", configures)


def patch_config_context(module: ModuleType, patches: Patches) -> None:
    """Patch ``set_config_context`` where it is used: the context made for the body of a run gets the run's span."""
    patches.replace(module, "set_config_context", _sets_config_context)


def _sets_config_context(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    @contextmanager
    def set_config_context(config: Any, *args: Any, **kwargs: Any) -> Iterator[Context]:
        with original(config, *args, **kwargs) as context:
            with guard("langchain.config_context"):
                context.run(runs.enter_for, config)
            yield context

    return set_config_context


def patch_tools(module: ModuleType, patches: Patches) -> None:
    """Patch ``langchain_core.tools.base``."""
    patches.replace(module.BaseTool, "run", tools.runs_tool)
    patches.replace(module.BaseTool, "arun", tools.runs_tool_async)
    patch_config_context(module, patches)


def patch_tool_node(module: ModuleType, patches: Patches) -> None:
    """Patch ``langgraph.prebuilt.tool_node``."""
    patches.replace(module.ToolNode, "_validate_tool_call", tools.validates)
