"""Keeps our frames out of ``torch.compile``: Dynamo neither traces, compiles nor guards on a wrapper of ours.

Dynamo inlines every Python function that a compiled function calls, unless its file is on a skip list. A wrapper that
is not on it costs the program frames, graph breaks and recompiles. A skipped one is an opaque call, like the method of
the C++ class below it.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from otel_rl.core import own_cpu
from otel_rl.core.import_hooks import hooks

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

DYNAMO = "torch._dynamo"
#: Holds the skip list of Dynamo; torch imports it with the first use of ``torch.compile``.
TRACE_RULES = "torch._dynamo.trace_rules"
EVAL_FRAME = "torch._C._dynamo.eval_frame"


class _Dynamo:
    """Whether Dynamo is at work in this thread (None: not), and its own wrapper that turns it off meanwhile."""

    is_at_work: Callable[[], Any]
    disabled: Callable[..., Any]


@functools.cache
def skip_our_frames() -> None:
    """Put the folder of this package on the skip list, now or when Dynamo is imported."""
    hooks.after_import(TRACE_RULES, _add_our_folder)
    hooks.after_import(DYNAMO, _wrap_runner)


def outside_dynamo(call: Callable[..., Any], *args: Any) -> Any:
    """Run ``call(*args)`` with Dynamo off, for code of ours that calls other people's Python functions.

    The skip list covers our own frames only: Dynamo would look at those of the SDK below them.
    """
    # Turning it off takes microseconds, and it mostly is not at work.
    return call(*args) if _Dynamo.is_at_work() is None else _Dynamo.disabled(call, *args)


def timed_outside_dynamo(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return :func:`own_cpu.timed` and :func:`outside_dynamo` in one: each call between two functions costs."""
    here = own_cpu.place(name)
    sampled = here.sampling(function)

    def run(*args: Any) -> Any:
        # Two threads may lose a count: it is an estimate.
        here.calls = calls = here.calls + 1
        call = function if calls < here.due else sampled
        return call(*args) if _Dynamo.is_at_work() is None else _Dynamo.disabled(call, *args)

    return run


def traced_as(wrapper: Callable[..., Any], original: Callable[..., Any]) -> None:
    """Have Dynamo trace ``original`` for a wrapper of it, as if it were not there (torch 2.5 and later)."""
    hooks.after_import(DYNAMO, lambda module: module.substitute_in_graph(wrapper, skip_signature_check=True)(original))


def _add_our_folder(module: ModuleType) -> None:
    # Not public, and the same from torch 2.4 to 2.13:
    # https://github.com/pytorch/pytorch/blob/v2.4.1/torch/_dynamo/trace_rules.py
    module.add("otel_rl")


def _wrap_runner(module: ModuleType) -> None:
    # Made once and here: making it inside a compiled function would be frames for Dynamo.
    _Dynamo.disabled = module.disable(_call)
    # Of C, and not public; the same from torch 2.4 to 2.13. Without it Dynamo is taken to be at work always.
    _Dynamo.is_at_work = getattr(sys.modules.get(EVAL_FRAME), "get_eval_frame_callback", bool)


def _call(call: Callable[..., Any], *args: Any) -> Any:
    return call(*args)


# Before it has been imported: what is called returns None.
_Dynamo.is_at_work = type(None)
_Dynamo.disabled = staticmethod(_call)
