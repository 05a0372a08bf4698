"""What the hooks of vLLM ask of the check of weights: only with ``OTEL_RL_SYNC_CHECK``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from otel_rl.core import settings
from otel_rl.core.guard import guard
from otel_rl.instrumentors.vllm.engine_contents import VLLMContents
from otel_rl.weight_sync.check import check_of
from otel_rl.weight_sync.trainer_updates import trainer_updates

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.weight_sync.check import EngineCheck

#: Methods of workers that are about weights and bring none.
_READS = re.compile(r"(get|check|has|list|count|compute|save|dump|init|destroy)_", re.IGNORECASE)
_SITE = guard("vllm.sync_check")


def watch(patches: Patches) -> None:
    """Follow the optimizers of this process, where the user asks for comparisons."""
    if settings.current().sync_check == "off":
        return
    end: Callable[[], None] | None = trainer_updates.watch()
    if end is not None:
        patches.on_restore(end)


def sync_ended(engine: Any, operation: str) -> None:
    """Note that an operation of this name has brought weights, or a part of them, to ``engine``."""
    with _SITE:
        core = _core(engine)
        check = None if _READS.match(operation) else _check_of_core(core)
        if check is not None:
            check.sync_ended(VLLMContents(core), operation)


def before_generation(llm: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Compare the weights of ``llm``, where that is due: the program is about to generate with these arguments."""
    core = _core(llm)
    check = _check_of_core(core)
    if check is None or _with_adapter(given, named):
        return
    with _SITE:
        check.before_generation(VLLMContents(core))


def _core(engine: Any) -> Any:
    return getattr(engine, "llm_engine", engine)


def _check_of_core(core: Any) -> EngineCheck | None:
    # An ``AsyncLLM`` is another kind, which cannot be asked from a thread that must not wait.
    return check_of(core) if hasattr(core, "step") else None


def _with_adapter(given: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Return whether the program generates with an adapter: its weights are not those of the model."""
    values = (*given, *named.values())
    firsts = (value[0] if isinstance(value, list) and value else value for value in values)
    return any(type(first).__name__ == "LoRARequest" for first in firsts)
