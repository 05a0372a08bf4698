"""The rollout that a process spawned by ``multiprocessing`` goes on with; of a pool's worker the step of its call too.

A leaf: the child reads it from a pickle before the program's code runs, also where it does not record. Processes that
record load it with ``multiprocessing``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any


class InheritedContext:
    """In the parent the variables of a context; read in the child, it makes that context current."""

    __slots__ = ("_environment",)

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def __reduce__(self) -> tuple[Any, ...]:
        return carry_on, (self._environment,)


class CarriedArguments(dict[str, Any]):
    """Arguments by name of a call for a worker of a process pool; read there, they make its context current.

    The initializer of the pool may have locked the worker up: without files, in another root, as another user. So
    reading them imports nothing. Where this module is not loaded, they are the arguments and nothing more.
    """

    __slots__ = ("_environment",)

    def __init__(self, arguments: dict[str, Any], environment: dict[str, str]) -> None:
        super().__init__(arguments)
        self._environment = environment

    def __reduce__(self) -> tuple[Any, ...]:
        return _BEGIN, (tuple(self._environment.items()), dict(self))


class _Pickled:
    """Read from a pickle it is what ``function`` returns; a pickle calls only what can be called here too."""

    __slots__ = ("_arguments", "_function")

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._function, self._arguments = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self._function, self._arguments

    def __call__(self) -> None:
        """Never called: it only has to look as if it could be."""


def _begin_where_loaded() -> _Pickled:
    """Return what is :func:`begin_call` in a worker that has loaded this module; only builtins are looked up.

    Elsewhere it is the ``get`` of an empty dictionary: of a key and another value it returns that value.
    """
    modules = _Pickled(getattr, _Pickled(__import__, "sys"), "modules")
    module = _Pickled(_Pickled(getattr, modules, "get"), __name__)
    return _Pickled(getattr, module, "begin_call", {}.get)


_BEGIN = _begin_where_loaded()
#: Nothing could be imported for a call in this process: it is locked up.
_is_locked_up = False


def begin_call(variables: tuple[tuple[str, str], ...], arguments: dict[str, Any]) -> dict[str, Any]:
    """Make the context of a call current in this worker, instead of that of the call before; return its arguments."""
    carry_on(dict(variables), is_next=True)
    return arguments


def carry_on(environment: dict[str, str], *, is_next: bool = False) -> None:
    """Make the context in ``environment`` current in this thread for good, where telemetry is on.

    ``is_next``: instead of that of the call before it, and with the step of this one.
    """
    # The pickle is the program's: an error here would end its child.
    with suppress(Exception):
        import otel_rl  # noqa: PLC0415 - not before the error is kept inside

        if otel_rl._enabled() and _can_import():  # noqa: SLF001 - one package
            from otel_rl.telemetry import propagation  # noqa: PLC0415 - only where telemetry is on

            if is_next:
                from otel_rl.training import caller_steps  # noqa: PLC0415 - only in the worker of a pool

                propagation.leave_rollout()
                caller_steps.begin_call(environment.get(caller_steps.VARIABLE))
            if propagation.carry_on(environment):
                from otel_rl.training import trajectory_changes  # noqa: PLC0415 - only inside of a rollout

                trajectory_changes.begin_in_child(is_forked=False)


def _can_import() -> bool:
    """Return whether what a call needs can be imported; an import that has failed would fail, slowly, at each call."""
    global _is_locked_up
    if not _is_locked_up:
        try:
            from otel_rl.telemetry import propagation  # noqa: F401, PLC0415 - tried here
            from otel_rl.training import caller_steps, trajectory_changes  # noqa: F401, PLC0415 - as above
        except Exception:  # noqa: BLE001 - whatever locks this process up
            _is_locked_up = True
    return not _is_locked_up
