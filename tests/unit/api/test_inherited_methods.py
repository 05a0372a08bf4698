"""Decorating a class that inherits its method changes no lookup: that of diamonds, and of bases patched later."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import sys
import types

import pytest

import otel_rl


class Base:
    def __call__(self):
        return "base"


@otel_rl.rollout()
class Decorated(Base):
    pass


class Beside(Base):
    def __call__(self, suffix=""):
        return "beside" + suffix


class Diamond(Decorated, Beside):
    pass


class Own(Decorated):
    def __call__(self):
        return f"own {super().__call__()}"


def rollouts(recorded):
    return sum(span.name == "rl.rollout" for span in recorded.spans)


def test_in_a_diamond_the_method_is_called_that_python_would_find(recorded):
    assert Diamond()("!") == "beside!"
    assert Decorated()() == "base"
    assert Own()() == "own base"
    assert rollouts(recorded) == 3
    assert str(inspect.signature(Diamond.__call__)) == "(self, suffix='')"
    assert Base()() == "base"
    assert rollouts(recorded) == 3


def test_a_method_of_another_kind_in_a_diamond_stays_what_it_is(recorded):
    class Slow(Base):
        async def __call__(self):
            return "slow"

    class Both(Decorated, Slow):
        pass

    assert inspect.iscoroutinefunction(Both.__call__)
    assert asyncio.run(Both()()) == "slow"
    assert rollouts(recorded) == 1


def test_a_base_that_is_patched_later_counts(recorded, monkeypatch):
    monkeypatch.setattr(Base, "__call__", lambda self: "patched")
    assert Decorated()() == "patched"
    monkeypatch.undo()
    assert Decorated()() == "base"
    assert rollouts(recorded) == 2


def test_a_base_that_gets_an_object_which_can_be_called_has_it_called(recorded, monkeypatch):
    class Callable:
        def __call__(self):
            return "object"

    monkeypatch.setattr(Base, "__call__", Callable())
    assert Decorated()() == "object"
    monkeypatch.delattr(Base, "__call__")
    with pytest.raises(AttributeError, match="no attribute '__call__'"):
        Decorated()()


def test_two_decorators_of_one_class_both_record(recorded):
    @otel_rl.rollout()
    @otel_rl.reward_function("twice")
    class Judge(Base):
        pass

    @otel_rl.reward_function("heir")
    class Heir(Decorated):
        pass

    assert Judge()() == Heir()() == "base"
    assert rollouts(recorded) == 2
    assert sum(span.name == "rl.reward" for span in recorded.spans) == 2


def test_a_call_is_recorded_once_where_the_base_is_decorated_alike(recorded):
    @otel_rl.reward_function("correct")
    class Scores:
        def __call__(self):
            return 1.0

    @otel_rl.reward_function("correct")
    class Heir(Scores):
        pass

    @otel_rl.reward_function("correct")
    class Last(Heir):
        pass

    assert Heir()() == Last()() == Scores()() == 1.0
    assert sum(span.name == "rl.reward" for span in recorded.spans) == 3


def test_pickle_finds_the_method_of_a_base_in_another_module(recorded, monkeypatch):
    elsewhere = types.ModuleType("module_of_a_base")
    exec("class Other:\n    def __call__(self):\n        return 'other'\n", vars(elsewhere))  # noqa: S102 - a module of a program
    monkeypatch.setitem(sys.modules, elsewhere.__name__, elsewhere)
    monkeypatch.setitem(globals(), "Elsewhere", type("Elsewhere", (elsewhere.Other,), {"__module__": __name__}))
    decorated = otel_rl.rollout()(globals()["Elsewhere"])
    assert pickle.loads(pickle.dumps(decorated.__call__)) is decorated.__call__  # noqa: S301 - our own bytes


def test_the_method_is_one_object_that_pickle_finds(recorded):
    assert Decorated.__call__ is Decorated.__call__
    assert pickle.loads(pickle.dumps(Decorated.__call__)) is Decorated.__call__  # noqa: S301 - our own bytes
    bound = pickle.loads(pickle.dumps(Decorated().__call__))  # noqa: S301 - our own bytes
    assert bound() == "base"
