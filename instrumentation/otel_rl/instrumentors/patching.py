"""Replacing attributes of foreign classes and modules so that they can be put back exactly."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from otel_rl.core import own_cpu
from otel_rl.instrumentors.observing import Hooks, Switch, with_instance, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Longest chain of wrappers that is searched for ours.
_LONGEST_CHAIN = 32


class _Replaced:
    """One replacement: where it stands, what stood there."""

    __slots__ = ("inherited", "name", "original", "owner", "replacement", "switch")

    def __init__(self, owner: Any, name: str, original: Any, replacement: Any, switch: Switch | None) -> None:
        self.owner = owner
        self.name = name
        self.original = original
        self.replacement = replacement
        self.switch = switch
        #: Found on a base class: restoring means deleting ours, not copying the base's attribute down.
        self.inherited = name not in vars(owner)

    def apply(self) -> None:
        setattr(self.owner, self.name, self.replacement)
        for namespace in self._copies_of(self.original):
            namespace[self.name] = self.replacement

    def restore(self) -> bool:
        """Put the original back where ours still is; False when somebody has patched over it since."""
        for namespace in self._copies_of(self.replacement):
            namespace[self.name] = self.original
        if vars(self.owner).get(self.name) is not self.replacement:
            return False
        if self.inherited:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)
        return True

    def _copies_of(self, value: Any) -> Iterator[dict[str, Any]]:
        """Namespaces of loaded modules that hold ``value`` under the same name: ``from owner import name``."""
        if not isinstance(self.owner, ModuleType):
            return
        for module in list(sys.modules.values()):
            if module is not self.owner and isinstance(module, ModuleType):
                namespace = _namespace(module)
                if namespace.get(self.name) is value:
                    yield namespace


class Patches:
    """The replacements one instrumentor made, in order.

    Originals are taken from the owner's ``__dict__``: reading them with ``getattr`` would bind them (a classmethod, a
    pybind method) and restoring the bound object breaks every later call.

    ``owner`` is a class or a module, ``name`` may be dotted: ``replace(module, "Client.request", factory)``. Where the
    owner is a module, copies of the attribute under the same name in other modules are replaced and restored too.
    """

    def __init__(self) -> None:
        self._replaced: list[_Replaced] = []
        #: Replacements that could not be taken away: somebody has patched over them.
        self._covered: list[_Replaced] = []
        self._restore_callbacks: list[Callable[[], None]] = []
        #: Names that this version of the library does not have, e.g. ``"ProcessGroup.all_gather_single"``.
        self.missing: list[str] = []
        #: Those of them that every supported version has to have.
        self.missing_required: list[str] = []

    def replace(self, owner: Any, name: str, factory: Callable[[Any], Any], *, required: bool = False) -> bool:
        """Set ``owner.name`` to ``factory(original)``.

        ``factory`` gets a function that takes the instance first, or the class or static method. Returns False, and
        notes the name under :attr:`missing`, where the library has no such attribute. Versions differ, so that is no
        error; a ``required`` name that is missing makes the state of the instrumentor "degraded".
        """
        return self._replace(owner, name, factory, None, required=required)

    def observe(
        self,
        owner: Any,
        name: str,
        *,
        before: Callable[..., Any] | None = None,
        after: Callable[..., Any] | None = None,
        begin: Callable[..., Any] | None = None,
        end: Callable[..., Any] | None = None,
        each: Callable[..., Any] | None = None,
        is_awaited: bool = False,
        required: bool = False,
    ) -> bool:
        """Run our code around calls of the function ``owner.name``; see :class:`~.observing.Hooks`.

        Works for functions, coroutines, generators and async generators, for methods, class and static methods.
        Returns False like :meth:`replace`.
        """
        switch = Switch()
        site = f"observe.{name}"
        given = {"before": before, "after": after, "begin": begin, "end": end, "each": each}
        timed = {part: hook and own_cpu.timed(f"{site}.{part}", hook) for part, hook in given.items()}
        hooks = Hooks(site, **timed, is_awaited=is_awaited)
        return self._replace(owner, name, lambda raw: wrap(raw, hooks, switch), switch, required=required)

    def on_restore(self, callback: Callable[[], None]) -> None:
        """Call ``callback()`` once, after the originals are back."""
        self._restore_callbacks.append(callback)

    def _replace(
        self, owner: Any, name: str, factory: Callable[[Any], Any], switch: Switch | None, *, required: bool
    ) -> bool:
        target, attribute = _resolve(owner, name)
        if target is None or not hasattr(target, attribute):
            self._note_missing(f"{_name_of(owner)}.{name}", required=required)
            return False
        covered = self._take_covered(target, attribute)
        if covered is not None:
            # Ours still runs below somebody else's wrapper: a second one would record every call twice.
            self._replaced.append(covered)
            return True
        original = _find_raw(target, attribute)
        if any(original is replaced.replacement for replaced in self._replaced):
            # A copy of a function that is replaced already.
            return True
        function = with_instance(original) if isinstance(target, type) else original
        replaced = _Replaced(target, attribute, original, factory(function), switch)
        replaced.apply()
        self._replaced.append(replaced)
        return True

    def _note_missing(self, name: str, *, required: bool) -> None:
        self.missing.append(name)
        if required:
            self.missing_required.append(name)

    def _take_covered(self, owner: Any, name: str) -> _Replaced | None:
        for replaced in self._covered:
            if replaced.owner is owner and replaced.name == name:
                self._covered.remove(replaced)
                if replaced.replacement in _chain(vars(owner).get(name)):
                    if replaced.switch is not None:
                        replaced.switch.on = True
                    return replaced
                break
        return None

    def restore(self, keep: int = 0) -> None:
        """Put the originals back, last replacement first, down to the first ``keep`` replacements.

        What somebody has patched since stays as it is: taking ours away would take theirs too.
        """
        while len(self._replaced) > keep:
            replaced = self._replaced.pop()
            # Also for copies under another name, which nobody finds.
            if replaced.switch is not None:
                replaced.switch.on = False
            if not replaced.restore():
                self._covered.append(replaced)
        if keep == 0:
            self.missing.clear()
            self.missing_required.clear()
            callbacks, self._restore_callbacks = self._restore_callbacks, []
            for callback in callbacks:
                callback()

    def __len__(self) -> int:
        return len(self._replaced)


def _namespace(module: ModuleType) -> dict[str, Any]:
    try:
        # Not `vars`: the attribute of a module that loads lazily would load it.
        namespace: dict[str, Any] = object.__getattribute__(module, "__dict__")
    except AttributeError:
        # cffi puts a library that it has loaded (`_cffi_backend.Lib`) among the modules; it has no namespace.
        return {}
    return namespace


def _resolve(owner: Any, name: str) -> tuple[Any, str]:
    """Owner and last part of a dotted name; None for an owner that is not there."""
    *parents, attribute = name.split(".")
    for parent in parents:
        owner = getattr(owner, parent, None)
    return owner, attribute


def _name_of(owner: Any) -> str:
    return str(getattr(owner, "__qualname__", getattr(owner, "__name__", owner)))


def _find_raw(owner: Any, name: str) -> Any:
    for base in getattr(owner, "__mro__", (owner,)):
        if name in vars(base):
            return vars(base)[name]
    return getattr(owner, name)


def _chain(value: Any) -> list[Any]:
    """``value`` and what it wraps, as ``functools.wraps`` notes it."""
    chain: list[Any] = []
    while value is not None and len(chain) < _LONGEST_CHAIN:
        chain.append(value)
        value = getattr(value, "__wrapped__", None)
    return chain
