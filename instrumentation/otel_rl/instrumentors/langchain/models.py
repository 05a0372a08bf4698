"""Model calls run in the context of the run above them, where LangChain has lost it: in the batches of its sequences.

``RunnableSequence.batch`` of langchain-core 1.7.2 begins a run per input and then calls the batch of each step, in no
run's context. The model's own manager still knows the run above it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.langchain import runs
from otel_rl.instrumentors.patch_functions import observing
from otel_rl.telemetry import open_trajectory
from otel_rl.telemetry.context import attach, detach, get_current, may_change

if TYPE_CHECKING:
    from collections.abc import Callable


def _begin_chat(
    _model: Any, _messages: Any, _stop: Any = None, run_manager: Any = None, *_: Any, **__: Any
) -> Callable[[], object] | None:
    return _enter(run_manager)


def _begin_completion(
    _model: Any, _prompts: Any, _stop: Any, run_managers: Any, *_: Any, **__: Any
) -> Callable[[], object] | None:
    # One request for several runs is of none.
    return _enter(run_managers[0]) if len(run_managers) == 1 else None


def _leave(leave: Callable[[], object], *_: Any) -> None:
    leave()


def _enter(manager: Any) -> Callable[[], object] | None:
    """Enter the context of the run above a call; return what leaves it."""
    run = runs.open_run(getattr(manager, "parent_run_id", None))
    if run is None:
        return None
    # Where something has become current since the run began, the program or LangChain has made it so.
    context = runs.context_below(run) if get_current() is run.began_in else None
    if context is not None:
        return partial(detach, attach(context))
    if run.trajectory is not None and may_change() and open_trajectory.current() is None:
        # Another instrumentor has the spans, and makes contexts of its own current.
        return partial(open_trajectory.leave, open_trajectory.enter(run.trajectory.counters))
    return None


patch_chat_models = observing(
    "BaseChatModel._generate_with_cache", "BaseChatModel._agenerate_with_cache", begin=_begin_chat, end=_leave
)
patch_completion_models = observing(
    "BaseLLM._generate_helper", "BaseLLM._agenerate_helper", begin=_begin_completion, end=_leave
)
