"""Functions of the program that the user names in the environment: rollouts and rewards of an unmodified program.

``OTEL_RL_ROLLOUT_FUNCTIONS`` and ``OTEL_RL_REWARD_FUNCTIONS`` name a function (``my_pkg.rewards:correct``), a method
(``my_pkg.loop:Agent.run``) or a class (``my_pkg.rewards:Judge``), of which ``__call__`` is meant. Each is decorated as
the producer API would, once its module has been imported.

What cannot be found is said in one line, and as the state of ``otel_rl_functions``. The program runs as without it.
A module that no folder of the import path has is said when the program starts; nothing is imported for that.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import otel_rl
from otel_rl.api.decorator import wrap_call
from otel_rl.api.inherited_methods import InheritedMethod, function_of, wrap_method
from otel_rl.core import instrumentor_status, settings, stderr
from otel_rl.core.guard import guard
from otel_rl.instrumentors.base import Instrumentor
from otel_rl.process import child_processes, process_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from typing_extensions import Self

    from otel_rl.instrumentors.patching import Patches

_MAIN = "__main__"
_CALL = "__call__"
_OF_SCRIPT = (
    "the script itself, whose functions exist only while it runs: move them to a module, or decorate them with"
    " otel_rl.rollout() and otel_rl.reward_function()"
)
_MISSING = object()
_CONTAINERS = (list, tuple, set, frozenset, dict)
#: Longer containers of a module are not searched.
_MAX_CONTAINER_LENGTH = 4096
#: Begins the reason of a function that containers of its module hold too.
RECORDED_BY_NAME = "is recorded by its name only"


class _Named(NamedTuple):
    """A function that a variable names, and what makes the operation of the producer API for it."""

    variable: str
    module: str
    path: str
    open: Callable[[str], Any]
    #: What a user writes above the function in its place.
    decorator: str

    def __str__(self) -> str:
        return f"{self.variable}: {self.module}:{self.path}"


class _Unusable(Exception):  # noqa: N818 - said to the user, not a crash
    """The function cannot be recorded; the message says why."""


class _Idle:
    """Stands for an operation where nothing is to be recorded any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing has been opened."""

    def open_detached(self) -> None:
        """As with telemetry off."""

    def returned(self, value: Any) -> Any:
        """Hand on ``value``."""
        return value

    handed_on = returned


_IDLE = _Idle()


class NamedFunctionsInstrumentor(Instrumentor):
    """Decorates what the two variables name."""

    library = "functions"
    requirements: ClassVar = ("otel-rl",)
    modules: ClassVar[dict[str, Any]] = {}

    def _set_up(self) -> None:
        super()._set_up()
        self._named: list[_Named] = []
        #: What cannot be recorded, and why.
        self._problems: dict[str, str] = {}
        #: Modules that could not be found at the start; the program may find them later.
        self._unfound: set[str] = set()
        #: By variable and what replaces it.
        self._originals: dict[tuple[str, Any], Any] = {}

    def _begin(self) -> None:
        self._named = _named()
        self._problems.clear()
        self._originals.clear()
        modules = dict.fromkeys(named.module for named in self._named if named.module != _MAIN)
        type(self).modules = dict.fromkeys(modules, self._patch)
        for named in self._named:
            if named.module == _MAIN:
                self._report_problem(named, f"is {_OF_SCRIPT}")
        self._unfound = {name for name in modules if not can_be_found(name, child_processes.original_arguments())}
        for named in self._named:
            if named.module in self._unfound and process_identity.current().leads:
                stderr.write_line(f"otel-rl: {named} {unfound(named.module)}")
        super()._begin()
        self._report()

    def _patch(self, module: ModuleType, patches: Patches) -> None:
        done: set[str] = set()
        for named in self._named:
            if named.module != module.__name__:
                continue
            try:
                self._decorate(module, named, patches, done)
            except _Unusable as unusable:
                self._report_problem(named, str(unusable))

    def _decorate(self, module: ModuleType, named: _Named, patches: Patches, done: set[str]) -> None:
        holders = _holders_of_name(module, named.path) if named.path not in vars(module) else []
        if holders:
            where = ", ".join(holders)
            raise _Unusable(f"is held by {where} only: name it in the module, or decorate it with {named.decorator}")
        path = _function_path(module, named.path)
        if path in done:
            raise _Unusable("is named twice")
        done.add(path)
        operation = named.open(path.removesuffix(f".{_CALL}"))
        original = vars(module).get(path)

        def of_call(names: tuple[str, ...], values: Any) -> Any:
            # Somebody may have patched over ours, which stays then.
            return operation.of_call(names, values) if self._instrumented else _IDLE

        def wrap(function: Any) -> Any:
            # The same method of a base may be named too: a call is recorded once.
            original = self._originals.get((named.variable, function), function)
            wrapped = wrap_call(original, of_call)
            self._originals[named.variable, wrapped] = original
            return wrapped

        owner, name = _owner(module, path)

        def replacement(function: Any) -> Any:
            return wrap_method(owner, name, function, wrap) if isinstance(owner, type) else wrap(function)

        try:
            patches.replace(module, path, replacement)
        except Exception as error:  # noqa: BLE001 - the program's metaclass may raise anything
            raise _Unusable(f"cannot be replaced ({type(error).__name__}: {error})") from None
        holders = _holders(module, original) if original is not None else []
        if holders:
            places = ", ".join(holders)
            advice = f"call it by its name, or decorate it with {named.decorator}"
            self._report_problem(named, f"{RECORDED_BY_NAME}, not from {places}: {advice}", "")

    def _report_problem(self, named: _Named, reason: str, consequence: str = "; it is not recorded") -> None:
        """Print one line; all processes of a run have the same variables, so the leading one prints it."""
        self._problems[str(named)] = reason
        if process_identity.current().leads:
            stderr.write_line(f"otel-rl: {named} {reason}{consequence}")

    def _report(self) -> None:
        reasons = [f"{named} {reason}" for named, reason in self._problems.items()]
        reasons += [
            f"module {name} {_not_imported(name)}{' and is not on the import path' if name in self._unfound else ''}"
            for name in self.modules
            if name not in self._applied
        ]
        state = instrumentor_status.DEGRADED if reasons else instrumentor_status.ACTIVE
        instrumentor_status.report(self.entry_point, state, "; ".join(reasons))


def _joining(operation: Any) -> Any:
    """Have the ids in arguments and results of its calls say which rollout they are, or score."""
    operation._arguments["is_named"] = True  # noqa: SLF001 - of no other function
    return operation


def _named() -> list[_Named]:
    chosen = settings.current()
    makers: tuple[tuple[str, tuple[str, ...] | None, Callable[[str], Any], str], ...] = (
        ("rollout_functions", chosen.rollout_functions, lambda _: _joining(otel_rl.rollout()), "otel_rl.rollout()"),
        (
            "reward_functions",
            chosen.reward_functions,
            lambda name: _joining(otel_rl.reward_function(name)),
            "otel_rl.reward_function()",
        ),
    )
    functions = []
    for setting, names, open_operation, decorator in makers:
        for name in dict.fromkeys(names or ()):
            module, _, path = name.partition(":")
            variable = settings.VARIABLES[setting].name
            functions.append(_Named(variable, module, path, open_operation, decorator))
    return functions


def can_be_found(module: str, arguments: Sequence[str]) -> bool:
    """Return whether the import path has the package of ``module``; code of the program is not run.

    Args:
        module: dotted name.
        arguments: command line of the program. The folder of a script becomes part of the path only later.
    """
    package = module.partition(".")[0]
    if package in sys.modules:
        return True
    kind, target, _ = child_processes.program(arguments)
    # Of a launcher the first file of Python among its arguments is meant; the others do no harm.
    scripts = [target, *(word for word in arguments if word.endswith(".py"))] if kind != "none" else []
    real = [os.path.realpath(script) for script in scripts]
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in real]  # noqa: PTH112, PTH120
    try:
        if importlib.util.find_spec(package) is not None:
            return True
        return PathFinder.find_spec(package, [*folders, os.path.realpath(os.curdir)]) is not None
    except Exception:  # noqa: BLE001 - a finder of the program's may raise anything
        return True


def unfound(module: str) -> str:
    """Return the end of the line about a module that cannot be found."""
    package = module.partition(".")[0]
    return f"cannot be found: no {package} on the import path. Check the name, unless the program adds to sys.path"


def _owner(module: ModuleType, path: str) -> tuple[Any, str]:
    """Return the module or class that has the function, and its name there."""
    *parents, name = path.split(".")
    owner: Any = module
    for parent in parents:
        owner = inspect.getattr_static(owner, parent)
    return owner, name


def _function_path(module: ModuleType, path: str) -> str:
    """``path`` to a function of Python, of a class to its ``__call__``.

    Raises:
        _Unusable: it leads to something else.
    """
    owner: Any = module
    member: Any = module
    for name in path.split("."):
        if member is not module and not isinstance(member, type):
            raise _Unusable(f"leads through {type(member).__name__}, which is no class")
        owner, member = member, inspect.getattr_static(member, name, _MISSING)
        if member is _MISSING:
            raise _Unusable(f"is missing: {owner.__name__} has no {name}")
    if isinstance(member, type):
        path = f"{path}.{_CALL}"
        member = next((vars(base)[_CALL] for base in member.__mro__ if _CALL in vars(base)), None)
        if member is None:
            raise _Unusable("is a class without __call__: name a method of it")
    function = function_of(member)
    if inspect.isfunction(function) or isinstance(function, InheritedMethod):
        return path
    kind = type(function).__qualname__
    if callable(function):
        raise _Unusable(f"is no function but an object of class {kind}: name the function, or {_CALL} of the class")
    raise _Unusable(f"is no function but an object of class {kind}")


def _containers(module: ModuleType) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Yield name, keys and values of the lists, tuples, sets and dictionaries of ``module``, which are only read."""
    for name, held in list(vars(module).items()):
        if type(held) not in _CONTAINERS or len(held) > _MAX_CONTAINER_LENGTH:
            continue
        yield (name, list(held), list(held.values())) if type(held) is dict else (name, [], list(held))


def _holders(module: ModuleType, function: Any) -> list[str]:
    """Return the names of the containers of ``module`` that hold ``function``, also as a key."""
    with guard("functions.holders"):
        return [
            name for name, keys, values in _containers(module) if any(function is item for item in (*keys, *values))
        ]
    return []


def _holders_of_name(module: ModuleType, name: str) -> list[str]:
    """Return the names of the containers of ``module`` with a function that is called ``name``, there or by itself."""
    with guard("functions.holders"):
        return [
            container
            for container, keys, values in _containers(module)
            if any(inspect.isfunction(item) and item.__name__ == name for item in values)
            or any(
                type(key) is str and key == name and inspect.isfunction(value)
                for key, value in zip(keys, values, strict=False)
            )
        ]
    return []


def _not_imported(name: str) -> str:
    kind, target, _ = child_processes.program(child_processes.original_arguments())
    of_script = os.path.splitext(os.path.basename(target))[0] if kind == "script" else target  # noqa: PTH119, PTH122
    return f"is {_OF_SCRIPT}" if name == of_script else "was not imported in this process"
