"""Patching and restoring, and the life of an instrumentor."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from otel_rl.core import instrumentor_status
from otel_rl.instrumentors.base import Instrumentor
from otel_rl.instrumentors.patching import Patches


class Base:
    def inherited(self):
        return "base"


class Target(Base):
    def method(self):
        return "original"

    @classmethod
    def of_class(cls):
        return cls.__name__

    @staticmethod
    def static():
        return "static"


def test_restoring_puts_back_the_very_objects_of_the_class_dictionary():
    before = dict(vars(Target))
    patches = Patches()
    patches.replace(Target, "method", lambda original: lambda self: f"patched {original(self)}")
    patches.replace(Target, "of_class", lambda original: classmethod(lambda cls: "patched"))
    patches.replace(Target, "static", lambda original: staticmethod(lambda: "patched"))
    patches.replace(Target, "inherited", lambda original: lambda self: f"patched {original(self)}")
    assert Target().method() == "patched original"
    assert Target().inherited() == "patched base"
    patches.restore()
    assert dict(vars(Target)) == before
    assert Target.of_class() == "Target"


def test_a_name_that_this_version_lacks_is_noted_and_nothing_else_happens():
    patches = Patches()
    assert not patches.replace(Target, "method_of_the_future", lambda original: original)
    assert patches.missing == ["Target.method_of_the_future"]
    assert not patches


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A real importable module, and a fresh instrumentor class for it."""
    (tmp_path / "patched_library.py").write_text("class Client:\n    def call(self):\n        return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "patched_library", raising=False)

    def build(patch):
        return type(
            "LibraryInstrumentor",
            (Instrumentor,),
            {"library": "library", "requirements": ("pytest >= 1",), "modules": {"patched_library": patch}},
        )()

    return build


def _patch_call(module, patches):
    patches.replace(module.Client, "call", lambda original: lambda self: original(self) + 1)


def test_a_library_is_patched_when_it_is_imported_later(library):
    instrumentor = library(_patch_call)
    instrumentor.instrument()
    assert instrumentor_status.snapshot()["otel_rl_library"]["state"] == "waiting"
    module = importlib.import_module("patched_library")
    assert module.Client().call() == 2
    assert instrumentor_status.snapshot()["otel_rl_library"]["state"] == "active"
    original_names = set(vars(module.Client))
    instrumentor.uninstrument()
    assert module.Client().call() == 1
    assert set(vars(module.Client)) == original_names


def test_a_library_imported_before_is_patched_at_once(library):
    module = importlib.import_module("patched_library")
    instrumentor = library(_patch_call)
    instrumentor.instrument()
    assert module.Client().call() == 2
    instrumentor.uninstrument()
    assert module.Client().call() == 1


def test_after_uninstrument_a_later_import_stays_untouched(library):
    instrumentor = library(_patch_call)
    instrumentor.instrument()
    instrumentor.uninstrument()
    assert importlib.import_module("patched_library").Client().call() == 1


def test_a_patch_that_fails_halfway_is_undone_and_reported_and_the_import_succeeds(library, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")

    def broken(module, patches):
        _patch_call(module, patches)
        raise RuntimeError("upstream moved it")

    instrumentor = library(broken)
    instrumentor.instrument()
    module = importlib.import_module("patched_library")
    assert module.Client().call() == 1
    outcome = instrumentor_status.snapshot()["otel_rl_library"]
    assert outcome["state"] == "failed"
    assert "upstream moved it" in outcome["reason"]
    instrumentor.uninstrument()


class _LoadedLibrary:
    """As cffi's `_cffi_backend.Lib`, which cffi puts among the modules: one for `isinstance`, without a namespace."""

    __slots__ = ()
    __class__ = ModuleType  # type: ignore[assignment]


def test_what_stands_among_the_modules_without_a_namespace_is_passed_over(monkeypatch):
    monkeypatch.setitem(sys.modules, "loaded_by_cffi", _LoadedLibrary())
    assert isinstance(sys.modules["loaded_by_cffi"], ModuleType)
    module = ModuleType("patched")
    module.function = original = lambda: 1
    patches = Patches()
    assert patches.replace(module, "function", lambda _: lambda: 2)
    assert module.function() == 2
    patches.restore()
    assert module.function is original
