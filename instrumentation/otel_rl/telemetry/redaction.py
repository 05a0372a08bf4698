"""``OTEL_RL_REDACT=module:function``: a function of the user sees captured content before it is recorded.

It fails closed: text that the function cannot clear is dropped and counted, never recorded as it was.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.core import settings, stderr
from otel_rl.process import process_identity
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Callable

    Redact = Callable[[str], str]

VARIABLE = settings.VARIABLES["redact"].name
#: Reasons for a drop: the function cannot be loaded, raised or returned no text, returned None, or called itself.
UNAVAILABLE, FAILED, WITHHELD, RECURSION = (
    "redaction_unavailable",
    "redaction_failed",
    "redaction_withheld",
    "redaction_recursion",
)

_FORM = "it must be module:function"


class Dropped(Exception):  # noqa: N818 - an outcome that the caller counts
    """The text must not be recorded; ``args[0]`` is the reason."""


class _Loaded(threading.local):
    """True on a thread that is inside the function: what it records there must not call it again."""

    inside = False


_thread = _Loaded()
#: Specification -> its function, or the reason why there is none.
_functions: dict[str, Any] = {}
_reported: set[str] = set()


def redact() -> Redact | None:
    """Return the function to call on each text, None without ``OTEL_RL_REDACT``; it may raise :class:`Dropped`."""
    specification = settings.current().redact
    return None if specification is None else lambda text: _apply(specification, text)


def text(value: str, signal: str) -> str | None:
    """Return ``value`` as the user's function lets it pass; None, and a count of ``signal``, where it does not."""
    function = redact()
    if function is None:
        return value
    try:
        return function(value)
    except Dropped as dropped:
        drops.count(signal, str(dropped))
        return None


def bad_form(specification: str) -> str:
    """Return a line that says that ``specification`` is not ``module:function``; empty where it is. Imports nothing."""
    module, _, function = specification.partition(":")
    names = [*module.split("."), *function.split(".")]
    return "" if all(name.isidentifier() for name in names) else complaint(specification, _FORM)


def report_bad_form() -> None:
    """At start: say in one line that the variable cannot work."""
    specification = settings.current().redact
    if specification is not None and bad_form(specification):
        _report(specification, _FORM)


def _apply(specification: str, value: str) -> str:
    if _thread.inside:
        raise Dropped(RECURSION)
    _thread.inside = True
    try:
        result = _function(specification)(value)
    except Dropped:
        raise
    except Exception:  # noqa: BLE001 - the user's code; its error may quote the text
        raise Dropped(FAILED) from None
    finally:
        _thread.inside = False
    if result is None:
        raise Dropped(WITHHELD)
    if not isinstance(result, str):
        raise Dropped(FAILED)
    return result


def _function(specification: str) -> Redact:
    loaded = _functions.get(specification)
    if loaded is None:
        try:
            loaded = _functions[specification] = _load(specification)
        except Exception as error:  # noqa: BLE001 - importing the user's module may raise anything
            _report(specification, _in_words(error))
            if not isinstance(error, AttributeError):
                # A module that is still being imported may get the attribute later; the rest will not mend itself.
                _functions[specification] = _refuse
            raise Dropped(UNAVAILABLE) from None
    function: Redact = loaded
    return function


def why_unusable(specification: str) -> str:
    """Import the function now; return why it cannot be used, empty where it can."""
    try:
        _load(specification)
    except Exception as error:  # noqa: BLE001 - importing the user's module may raise anything
        return _in_words(error)
    return ""


def _in_words(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _refuse(_: str) -> str:
    raise Dropped(UNAVAILABLE)


def _load(specification: str) -> Redact:
    module_name, _, path = specification.partition(":")
    if bad_form(specification):
        raise ValueError(_FORM)
    named: Any = _main_module(module_name) or importlib.import_module(module_name)
    for name in path.split("."):
        named = getattr(named, name)
    if not callable(named) or inspect.iscoroutinefunction(named):
        raise TypeError(f"{path} is not a plain function")
    function: Redact = named
    return function


def _main_module(name: str) -> Any:
    """Return the program itself where ``name`` means its script: importing that would run it a second time."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if file is None or name in sys.modules:
        return None
    spec = find_spec(name)
    if spec is None or spec.origin is None or Path(spec.origin).resolve() != Path(file).resolve():
        return None
    return main


def complaint(specification: str, reason: str) -> str:
    """Return the line that says why ``specification`` cannot be used, and what to do."""
    return (
        f'otel-rl: {VARIABLE}="{specification}" cannot be used ({reason}): content and exception text are dropped;'
        " name a function that the program can import, such as my_package.privacy:redact"
    )


def _report(specification: str, reason: str) -> None:
    """Print one line; the ranks of a node have the same variable, so the first one prints it."""
    if specification in _reported:
        return
    _reported.add(specification)
    if process_identity.current().local_rank in (0, None):
        stderr.write_line(complaint(specification, reason))
