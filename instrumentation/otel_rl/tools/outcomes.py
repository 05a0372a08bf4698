"""How a tool call ended: ``rl.tool.outcome``, the same words for every kind of tool.

``error.type`` is more exact and differs by library: the class of the exception, where one was raised.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.semconv.attributes import RlToolOutcomeValues
from otel_rl.telemetry.attribute_values import error_type, is_cancellation

if TYPE_CHECKING:
    from types import TracebackType

OK = RlToolOutcomeValues.OK
TOOL_ERROR = RlToolOutcomeValues.TOOL_ERROR
TIMEOUT = RlToolOutcomeValues.TIMEOUT
INVALID_ARGUMENTS = RlToolOutcomeValues.INVALID_ARGUMENTS
UNKNOWN_TOOL = RlToolOutcomeValues.UNKNOWN_TOOL
CANCELLED = RlToolOutcomeValues.CANCELLED
ERROR_TEXT = RlToolOutcomeValues.ERROR_TEXT

_FAILURES = frozenset({TOOL_ERROR, TIMEOUT, INVALID_ARGUMENTS, UNKNOWN_TOOL, CANCELLED})
#: Classes by their names, as their libraries may not be imported: those whose names end like that of Python's own, and
#: those of subprocess, httpx, requests and urllib3.
_TIMEOUTS = frozenset({"TimeoutException", "TimeoutExpired", "Timeout"})
_VALIDATORS = frozenset({"pydantic", "pydantic_core", "pydantic_v1"})
#: What CPython says when the arguments of a call do not fit its parameters.
_BINDING = re.compile(r"[\w.<>]+\(\) (missing \d|got (an unexpected|multiple|some positional)|takes )")
#: Packages between the one who calls a tool and the tool.
_BETWEEN = _VALIDATORS | {"asyncio", "concurrent", "contextvars", "functools", "langchain_core", "langgraph", "otel_rl"}


#: How the text of a result begins that is an error; characters of it that are looked at.
_ERROR_TEXT = re.compile(
    r"""\s*(?:[\[(<*]*(?:tool[ _])?(?:error|exception)[\])>*]*\s*(?:[:!\]]|-\s|(?:executing|calling|running|while)\b)
    |[\w.]+(?:Error|Exception):\s|Traceback\ \(most\ recent
    |\{\s*["']error["']\s*:(?!\s*(?:null|none|false|""|''|0)))""",
    re.VERBOSE | re.IGNORECASE,
)
_BEGINNING = 256


class Failure(NamedTuple):
    """How a call failed: its ``error.type``, and its outcome."""

    kind: str
    outcome: str


def raised(error: BaseException) -> Failure:
    """Return the failure of a tool that raised ``error``, whose traceback begins where it was called."""
    return Failure(error_type(error), outcome_of(error))


def declared(kind: str) -> Failure:
    """Return a failure that the program or a library declares; ``kind`` becomes ``error.type``."""
    return Failure(kind, kind if kind in _FAILURES else TOOL_ERROR)


def returned(result: Any) -> Failure | None:
    """Return the failure in what a tool returned: an exception object stands for one that was raised."""
    # Not isinstance(), which asks an object for its `__class__`: that of a lazy one is not known yet.
    return raised(result) if issubclass(type(result), BaseException) else None


def of_result(result: Any) -> str:
    """Return the outcome of a tool that returned ``result``: its text, or a field, may say that it failed."""
    return ERROR_TEXT if _is_error_text(result) else OK


def _is_error_text(result: Any) -> bool:
    if type(result) is list and result:
        result = result[0]
    if type(result) is dict:
        if result.get("isError") is True:
            return True
        error = result.get("error")
        result = (
            result.get("text") if error is None else f"Error: {error}" if type(error) in {str, dict} and error else ""
        )
    return type(result) is str and _ERROR_TEXT.match(result, 0, _BEGINNING) is not None


def exit_code(value: object) -> int | None:
    """Exit code of the program that a tool has run with ``subprocess.run``, in its exception or its result."""
    subprocess = sys.modules.get("subprocess")
    if subprocess is None or not issubclass(type(value), (subprocess.CalledProcessError, subprocess.CompletedProcess)):
        return None
    code = getattr(value, "returncode", None)
    return code if type(code) is int else None


def outcome_of(error: BaseException) -> str:
    """Return the outcome of a call that has ended with ``error``."""
    names = {base.__name__ for base in type(error).__mro__}
    if names & _TIMEOUTS or any(name.endswith("TimeoutError") for name in names):
        return TIMEOUT
    if any(map(is_cancellation, names)):
        return CANCELLED
    return INVALID_ARGUMENTS if _says_refusal(error) and not _has_begun(error.__traceback__) else TOOL_ERROR


def _says_refusal(error: BaseException) -> bool:
    if type(error) is TypeError:
        message = error.args[0] if error.args else None
        return isinstance(message, str) and _BINDING.match(message) is not None
    return any(
        base.__name__ == "ValidationError" and str(base.__module__).partition(".")[0] in _VALIDATORS
        for base in type(error).__mro__
    )


def _has_begun(trace: TracebackType | None) -> bool:
    """Return whether code of the tool has run: a frame below the first one that belongs to none of those in between.

    The same exceptions may come from within the tool. An exception that was never raised has no frame at all.
    """
    if trace is None:
        return True
    while (trace := trace.tb_next) is not None:
        module = trace.tb_frame.f_globals.get("__name__")
        if not isinstance(module, str) or module.partition(".")[0] not in _BETWEEN:
            return True
    return False
