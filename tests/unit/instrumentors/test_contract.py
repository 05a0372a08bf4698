"""The contract that every instrumentor of ours keeps, whatever its library is; one run per entry point."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import json
import pickle
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, entry_points, version
from types import FunctionType, ModuleType

import pytest
from packaging.requirements import Requirement

from otel_rl.core import instrumentor_status
from otel_rl.instrumentors.patching import Patches

OURS = {one.name: one for one in entry_points(group="opentelemetry_instrumentor") if one.name.startswith("otel_rl_")}


@pytest.fixture(params=sorted(OURS))
def kind(request):
    """The class of an instrumentor; all modules that it patches are imported, as far as they are installed."""
    kind = OURS[request.param].load()
    # The name of a distribution is not always that of its module.
    top = next(iter(kind.modules)).partition(".")[0]
    if importlib.util.find_spec(top) is None:
        pytest.skip(f"{top} is not installed here")
    if not any(_is_supported(Requirement(one)) for one in kind.supported()):
        pytest.skip(f"{top} is installed here in a version that is not supported")
    imported = []
    for module in kind.modules:
        try:
            imported.append(importlib.import_module(module))
        except ImportError:
            # Of another version, or of a companion that is not installed.
            continue
    if not imported:
        pytest.skip(f"{top} is installed here without what its modules need")
    return kind


def _is_supported(requirement):
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


@pytest.fixture
def originals(kind):
    """What the instrumentor replaces, as it was before: (owner, name) -> object of the owner's dictionary."""
    instrumentor = kind()
    instrumentor.instrument(skip_dep_check=True)
    places = [(replaced.owner, replaced.name) for replaced in instrumentor._patches._replaced]
    instrumentor.uninstrument()
    assert places, "nothing of the library was replaced"
    return {place: vars(place[0]).get(place[1]) for place in places}


@pytest.fixture
def instrumented(kind, originals, recorded):
    instrumentor = kind()
    instrumentor.instrument(skip_dep_check=True)
    yield instrumentor
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


def _now(originals):
    return {(owner, name): vars(owner).get(name) for owner, name in originals}


def _function(raw):
    return raw.__func__ if hasattr(raw, "__func__") else raw


def _signature(function):
    try:
        return inspect.signature(function)
    except ValueError:  # a function of C without one
        return None


def test_it_is_active_and_no_required_name_is_missing(instrumented, originals):
    assert instrumentor_status.snapshot()[instrumented.entry_point]["state"] in ("active", "degraded")
    assert instrumented._patches.missing_required == []
    assert all(now is not originals[place] for place, now in _now(originals).items())


def test_uninstrumenting_puts_the_very_objects_back(instrumented, originals):
    instrumented.uninstrument()
    assert all(now is originals[place] for place, now in _now(originals).items())


def test_copies_by_from_import_are_replaced_and_restored(kind, originals, recorded, monkeypatch):
    importer = ModuleType("program_that_imported_early")
    functions = {name: raw for (owner, name), raw in originals.items() if isinstance(owner, ModuleType)}
    if not functions:
        pytest.skip("replaces no function of a module")
    vars(importer).update(functions)
    monkeypatch.setitem(sys.modules, importer.__name__, importer)
    kind().instrument(skip_dep_check=True)
    replaced = [getattr(importer, name) for name in functions]
    late = dict(vars(importer))
    kind().uninstrument()
    assert all(now is not raw for now, raw in zip(replaced, functions.values(), strict=True))
    assert all(vars(importer)[name] is raw for name, raw in functions.items())
    assert set(late) == set(vars(importer))


def test_signatures_names_and_kinds_stay(instrumented, originals):
    for (owner, name), now in _now(originals).items():
        before, after = _function(originals[owner, name]), _function(now)
        if before is None:  # inherited
            continue
        assert _signature(after) == _signature(before), name
        assert after.__name__ == before.__name__
        assert after.__doc__ == before.__doc__
        for check in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction):
            assert check(after) == check(before), (name, check)
        if isinstance(originals[owner, name], FunctionType | classmethod | staticmethod):
            assert type(now) is type(originals[owner, name]), name


def test_replaced_functions_can_be_pickled_and_copied(instrumented, originals):
    for owner, name in originals:
        before = originals[owner, name]
        if (
            not isinstance(before, FunctionType)
            or before.__qualname__ != f"{getattr(owner, '__qualname__', '')}.{name}"
        ):
            continue
        function = getattr(owner, name)
        assert pickle.loads(pickle.dumps(function)) is function  # noqa: S301 - our own bytes
        assert copy.deepcopy(function) is function


def test_classes_stay_the_same_objects(kind, originals, recorded):
    classes = {owner for owner, _ in originals if isinstance(owner, type)}
    bases = {owner: owner.__mro__ for owner in classes}
    kind().instrument(skip_dep_check=True)
    try:
        for owner in classes:
            assert getattr(sys.modules[owner.__module__], owner.__qualname__, owner) is owner
            assert owner.__mro__ == bases[owner]
            assert issubclass(owner, bases[owner][-2] if len(bases[owner]) > 1 else object)
    finally:
        kind().uninstrument()


def test_what_the_original_raises_arrives_as_it_is(instrumented, originals, monkeypatch):
    """A call without the arguments that the original needs: the same class of error, raised by the original."""
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")  # the arguments do not fit our hooks either
    for (owner, name), now in _now(originals).items():
        function = _function(now)
        if originals[owner, name] is None:  # inherited
            continue
        if not callable(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            continue
        needed = _signature(function)
        if needed is None or not any(
            p.default is p.empty and p.kind < p.VAR_POSITIONAL for p in needed.parameters.values()
        ):
            continue
        # A decorator of the library may look for its first argument itself, as that of `datasets.Dataset.map` does.
        with pytest.raises((TypeError, KeyError)) as expected:
            _run(_function(originals[owner, name]))
        with pytest.raises(expected.type) as caught:
            _run(function)
        assert str(caught.value) == str(expected.value) or "missing" in str(caught.value)


def _run(function):
    called = function()
    if inspect.iscoroutine(called):
        called.send(None)


def test_instrumenting_twice_replaces_once(instrumented, originals):
    first = _now(originals)
    instrumented.instrument(skip_dep_check=True)
    assert _now(originals) == first
    instrumented.uninstrument()
    instrumented.uninstrument()
    assert all(now is originals[place] for place, now in _now(originals).items())


def test_whoever_patched_later_is_left_alone(instrumented, originals):
    (owner, name), ours = next((place, now) for place, now in _now(originals).items() if isinstance(now, FunctionType))

    def theirs(*args, **kwargs):
        return ours(*args, **kwargs)

    theirs.__wrapped__ = ours
    setattr(owner, name, theirs)
    try:
        instrumented.uninstrument()
        assert vars(owner)[name] is theirs
        instrumented.instrument(skip_dep_check=True)
        assert vars(owner)[name] is theirs, "ours is below theirs already: a second one would record twice"
        setattr(owner, name, ours)
        instrumented.uninstrument()
        assert vars(owner)[name] is originals[owner, name]
    finally:
        if originals[owner, name] is not None:
            setattr(owner, name, originals[owner, name])


@pytest.mark.bad_input("version outside the range")
def test_a_required_name_that_is_missing_makes_it_degraded(kind, originals, recorded, monkeypatch):
    replace = Patches._replace

    def noting(self, owner, name, *arguments, required: bool):
        if required:
            names.append((owner, name))
        return replace(self, owner, name, *arguments, required=required)

    names: list[tuple[object, str]] = []
    monkeypatch.setattr(Patches, "_replace", noting)
    kind().instrument(skip_dep_check=True)
    kind().uninstrument()
    monkeypatch.setattr(Patches, "_replace", replace)
    assert names, "an instrumentor names what every supported version has"
    own = [(owner, name) for owner, name in names if _is_own(owner, name)]
    if not own:
        pytest.skip("base classes have all of its names too, so that none can be missing")
    owner, dotted = own[0]
    *parents, attribute = dotted.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    monkeypatch.delattr(owner, attribute)
    kind().instrument(skip_dep_check=True)
    try:
        outcome = instrumentor_status.snapshot()[kind().entry_point]
        if not hasattr(owner, attribute):
            assert outcome["state"] == "degraded"
            assert attribute in outcome["reason"]
    finally:
        kind().uninstrument()


def _is_own(owner, dotted):
    *parents, attribute = dotted.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    mro = getattr(owner, "__mro__", (owner,))
    return attribute in vars(owner) and not any(attribute in vars(base) for base in mro[1:])


def test_the_class_imports_nothing_of_the_library_or_of_its_wrappers(kind):
    package = kind.__module__
    program = (
        "import importlib, json, sys\n"
        f"module = importlib.import_module({package!r})\n"
        f"getattr(module, {kind.__name__!r}).triggers()\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(json.loads(done.stdout))
    assert not imported & {module.partition(".")[0] for module in kind.modules} - {"opentelemetry"}
    assert not imported & set(kind.modules)
    assert {name for name in imported if name.startswith(f"{package}.")} == set()
    assert not imported & {"opentelemetry.sdk", "opentelemetry.instrumentation.instrumentor", "wrapt"}


def test_it_counts_as_an_instrumentor_of_opentelemetry(kind):
    from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

    assert isinstance(kind(), BaseInstrumentor)
    assert kind() is kind()
    assert tuple(kind().instrumentation_dependencies()) == kind.supported()
