"""Patch functions that are declared: what they do to a module, and when."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager, suppress
from types import ModuleType

import pytest

from otel_rl.instrumentors.patch_functions import bypassing, observing, together
from otel_rl.instrumentors.patching import Patches
from otel_rl.telemetry import scope


@contextmanager
def block(name):
    """A context manager, as libraries have them."""
    yield name


@asynccontextmanager
async def async_block(name):
    yield name


@pytest.fixture
def library():
    module = ModuleType("library")
    module.block, module.async_block = block, async_block
    module.answer = lambda question: f"the library's {question}"
    return module


@pytest.fixture
def patches():
    made = Patches()
    yield made
    made.restore()


async def test_hooks_see_the_block_of_a_context_manager_as_the_call(library, patches, recorded):
    seen = []
    hooks = {
        "begin": lambda name: seen.append(f"begin {name}") or name,
        "end": lambda name, _, error: seen.append(f"end {name} {error!r}"),
    }
    observing("block", "async_block", **hooks)(library, patches)
    manager = library.block("a")
    assert seen == []
    with suppress(KeyError), manager as name:
        seen.append(f"in {name}")
        raise KeyError
    async with library.async_block("b") as name:
        seen.append(f"in {name}")
    assert seen == ["begin a", "in a", "end a KeyError()", "begin b", "in b", "end b None"]
    assert type(manager) is type(block("a"))


def test_nothing_begins_while_telemetry_is_off(library, patches, monkeypatch):
    monkeypatch.setattr(scope.trace_api, "_TRACER_PROVIDER", None)
    observing("answer", begin=pytest.fail)(library, patches)
    assert library.answer("x") == "the library's x"


def test_a_bypassed_call_does_not_reach_the_library(library, patches):
    bypassing("answer", when=lambda question: question == "x", result=lambda question: f"our {question}")(
        library, patches
    )
    assert (library.answer("x"), library.answer("y")) == ("our x", "the library's y")


def test_an_error_of_ours_leaves_the_call_to_the_library(library, patches, monkeypatch):
    monkeypatch.delenv("OTEL_RL_RAISE_INTERNAL_ERRORS")
    bypassing("answer", when=lambda question: question / 0, result=pytest.fail)(library, patches)
    assert library.answer("x") == "the library's x"


def test_one_function_of_several_that_is_missing_leaves_the_others(library, patches):
    together(observing("absent", before=print), bypassing("answer", when=bool, result=str.upper))(library, patches)
    assert patches.missing_required == ["library.absent"]
    assert library.answer("x") == "X"
