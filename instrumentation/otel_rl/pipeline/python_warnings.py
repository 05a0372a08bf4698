"""Keeps the program's warnings as frequent as without us.

Python shows most warnings once per location. Every change of the filters makes it forget which it has shown
(``warnings._filters_mutated``), also a change that has nothing to do with them.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk import trace as sdk_trace
from opentelemetry.sdk.util.instrumentation import InstrumentationInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

_FORGET = "_filters_mutated"


def keep_filters() -> None:
    """Stop ``opentelemetry.sdk.trace.TracerProvider.get_tracer`` (1.45.1) from changing the filters at every call.

    It does so to hide the deprecation of a class that it uses itself; here it makes the objects without the warning.
    """
    namespace = vars(sdk_trace)
    initialise = getattr(InstrumentationInfo.__init__, "__wrapped__", None)
    if initialise is None or not {"filterwarnings", "InstrumentationInfo"} <= namespace.keys():
        return

    def undeprecated(*arguments: Any, **keywords: Any) -> InstrumentationInfo:
        info = InstrumentationInfo.__new__(InstrumentationInfo)
        initialise(info, *arguments, **keywords)
        return info

    namespace["InstrumentationInfo"] = undeprecated
    namespace["filterwarnings"] = _change_nothing


def _change_nothing(*_: Any, **__: Any) -> None:
    """Replace ``warnings.filterwarnings``."""


@contextmanager
def remembered() -> Iterator[None]:
    """Import libraries on this thread that add filters for warnings of their own (urllib3, requests).

    Filters that other threads change meanwhile take effect as ever. Python 3.14 has no such hook.
    """
    forget = getattr(warnings, _FORGET, None)
    if forget is None:
        yield
        return
    thread = threading.get_ident()

    def forget_for_others() -> None:
        if threading.get_ident() != thread:
            forget()

    setattr(warnings, _FORGET, forget_for_others)
    try:
        yield
    finally:
        setattr(warnings, _FORGET, forget)
