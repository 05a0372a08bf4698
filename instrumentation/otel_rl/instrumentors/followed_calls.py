"""Calls of a library's function inside of an operation, whatever kind of function it is.

The decorator of the producer API does the work: a generator's operation begins with its first piece, and is current
while the generator runs only. Nothing leaks into the code that takes its items, and one that is left early is no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current

from otel_rl.api import continuation
from otel_rl.api.decorator import wrap_call
from otel_rl.api.operations import Opened
from otel_rl.core.guard import guard
from otel_rl.telemetry.scope import enabled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from typing_extensions import Self

    from otel_rl.api.operations import ProducerOperation
    from otel_rl.instrumentors.base import PatchFunction
    from otel_rl.instrumentors.patching import Patches

    #: Begins the operation of a call from its arguments by name, if telemetry is on; None to leave the call alone.
    Begin = Callable[[Mapping[str, Any]], ProducerOperation | None]


def follow(patches: Patches, owner: Any, name: str, begin: Begin, *, required: bool = False) -> bool:
    """Run each call of ``owner.name`` inside of the operation that ``begin`` makes.

    ``begin`` gets the arguments by the names of the parameters, the instance among them; those of ``*args`` and
    ``**kwargs`` under these names. What the function returns is given to the operation's ``result``, each item of a
    generator to its ``produced``, if it has them.
    """
    return patches.replace(owner, name, lambda original: followed(original, name, begin), required=required)


def following(*names: str, begin: Begin, required: bool = True) -> PatchFunction:
    """Return a patch function that follows the functions of these names; see :func:`follow`.

    It is what ``modules`` of an instrumentor names: ``patch_crews = following("Crew.kickoff", begin=_crew_begins)``.
    """

    def patch(module: ModuleType, patches: Patches) -> None:
        for name in names:
            follow(patches, module, name, begin, required=required)

    return patch


def followed(original: Any, name: str, begin: Begin) -> Any:
    """Return ``original`` with each call inside of the operation that ``begin`` makes; ``name`` names our errors."""
    return wrap_call(
        original, lambda names, values: _FollowedCall(name, begin, dict(zip(names, values, strict=True))),
        has_receiver=True,
    )  # fmt: skip


class _FollowedCall:
    """One call, as the decorator uses operations."""

    __slots__ = ("_arguments", "_begin", "_opened", "_site")

    def __init__(self, name: str, begin: Begin, arguments: Mapping[str, Any]) -> None:
        self._site = f"follow.{name}"
        self._begin: Begin | None = begin
        self._arguments: Mapping[str, Any] = arguments
        self._opened: Opened | None = None

    def _operation(self) -> ProducerOperation | None:
        begin, self._begin = self._begin, None
        # A long call must not keep its arguments alive.
        arguments, self._arguments = self._arguments, {}
        operation = begin(arguments) if begin is not None and enabled() else None
        if operation is not None:
            continuation.install()
        return operation

    def __enter__(self) -> Self:
        with guard(self._site):
            operation = self._operation()
            self._opened = None if operation is None else Opened(operation)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._opened is not None:
            self._opened.close(error)

    def open_detached(self) -> Opened | None:
        """Begin the operation of a generator, which is current during its pieces only."""
        with guard(self._site):
            operation = self._operation()
            if operation is not None:
                context = get_current()
                operation.leave()
                return Opened(operation, context)
        return None

    def returned(self, value: Any) -> Any:
        """Give ``value`` to the operation, and hand it on."""
        if self._opened is not None:
            self._opened.returned(value)
        return value

    handed_on = returned
