"""``OTEL_RL_ROLLOUT_FUNCTIONS`` and ``OTEL_RL_REWARD_FUNCTIONS``: functions of a program that is not changed."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import pickle
import sys
import types

import pytest

from otel_rl.core import instrumentor_status, settings
from otel_rl.instrumentors.named_functions import NamedFunctionsInstrumentor, can_be_found

STATE = "otel_rl_functions"
REWARDS = '''
import functools
import otel_rl

def correct(answer, /, *, expected="4"):
    """Of the program."""
    return float(answer == expected)

class Base:
    def __call__(self, answer):
        return 0.25

class Judge(Base):
    __slots__ = ("name",)

    def fixed(self, answer):
        return 0.5

    @staticmethod
    def static(answer):
        return 0.75

    @classmethod
    def of_class(cls, answer):
        return 1.0

class Strict(Base):
    def __call__(self, answer):
        return 0.125

    @classmethod
    def made_by(cls):
        return cls.__name__

class Lenient(Base):
    pass

class Both(Lenient, Strict):
    pass

@otel_rl.reward_function("by its decorator")
class Decorated(Base):
    pass

class DecoratedDiamond(Decorated, Strict):
    pass

class OfClass(Strict):
    pass

class Plain:
    score = 3
    limit = property(lambda self: 1)

class Frozen(type):
    def __setattr__(cls, name, value):
        raise RuntimeError("frozen")

class Sealed(metaclass=Frozen):
    def score(self):
        return 1.0

cached = functools.lru_cache(correct)
number = 3
judge = Judge()
'''
HELD = """
def correct(answer):
    return 1.0

ALL = (correct, [])
BY_NAME = {"correct": correct, "short": lambda answer: 0.5}
WEIGHTS = {correct: 0.5, "correct": 1.0}
CHOSEN = {correct}
OTHERS = [len]
"""
LOOP = """
from named_rewards import correct

async def collect(prompt):
    return correct(prompt)

def turns(prompt):
    got = yield prompt
    return got
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The modules of a program, which are not imported yet."""
    (tmp_path / "named_rewards.py").write_text(REWARDS)
    (tmp_path / "named_loop.py").write_text(LOOP)
    (tmp_path / "held_rewards.py").write_text(HELD)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module
    for name in ("named_rewards", "named_loop", "held_rewards"):
        sys.modules.pop(name, None)


@pytest.fixture
def name_functions(monkeypatch, recorded, capfd):
    """Set the variables, instrument, and return what standard error got."""
    instrumentor = NamedFunctionsInstrumentor()
    # Each test imports modules of the same names anew.
    instrumentor._hooked.clear()

    def start(rollouts="", rewards=""):
        monkeypatch.setenv("OTEL_RL_ROLLOUT_FUNCTIONS", rollouts)
        monkeypatch.setenv("OTEL_RL_REWARD_FUNCTIONS", rewards)
        settings.reset()
        instrumentor.instrument(skip_dep_check=True)
        return lambda: capfd.readouterr().err

    yield start
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()
    monkeypatch.undo()
    settings.reset()


def state():
    return instrumentor_status.snapshot()[STATE]


def names(recorded):
    return [span.attributes.get("rl.reward.name", span.name) for span in recorded.spans]


def test_functions_are_recorded_once_their_modules_are_imported(program, name_functions, recorded):
    said = name_functions("named_loop:collect", "named_rewards:correct, named_rewards:Judge")
    assert "named_rewards" not in sys.modules
    loop = program("named_loop")
    assert asyncio.run(loop.collect("4")) == 1.0
    assert sys.modules["named_rewards"].Judge()("4") == 0.25
    assert names(recorded) == ["correct", "rl.rollout", "Judge"]
    assert recorded.span("rl.rollout").attributes["rl.rollout.reward"] == 1.0
    assert state() == {"state": "active", "reason": ""}
    assert said() == ""


def test_modules_that_are_imported_already_are_patched_with_the_copies_in_others(program, name_functions, recorded):
    loop = program("named_loop")
    name_functions(rewards="named_rewards:correct")
    rewards = sys.modules["named_rewards"]
    assert loop.correct is rewards.correct
    loop.correct("4")
    assert names(recorded) == ["correct"]


def test_containers_that_hold_a_function_stay_as_they_are_and_one_line_says_so(program, name_functions, recorded):
    rewards = program("held_rewards")
    original, before = rewards.correct, repr([rewards.ALL, rewards.BY_NAME, rewards.WEIGHTS, rewards.CHOSEN])
    said = name_functions(rewards="held_rewards:correct")
    reason = (
        "OTEL_RL_REWARD_FUNCTIONS: held_rewards:correct is recorded by its name only, not from ALL, BY_NAME, WEIGHTS,"
        " CHOSEN: call it by its name, or decorate it with otel_rl.reward_function()"
    )
    assert said() == f"otel-rl: {reason}\n"
    assert state() == {"state": "degraded", "reason": reason}
    assert repr([rewards.ALL, rewards.BY_NAME, rewards.WEIGHTS, rewards.CHOSEN]) == before
    assert rewards.ALL[0] is rewards.BY_NAME["correct"] is original
    rewards.BY_NAME["correct"]("4")
    assert names(recorded) == []
    rewards.correct("4")
    assert names(recorded) == ["correct"]


def test_a_function_that_only_a_container_holds_is_not_recorded_and_one_line_says_so(program, name_functions, recorded):
    said = name_functions("held_rewards:short")
    assert program("held_rewards").BY_NAME["short"]("4") == 0.5
    assert said() == (
        "otel-rl: OTEL_RL_ROLLOUT_FUNCTIONS: held_rewards:short is held by BY_NAME only: name it in the module, or"
        " decorate it with otel_rl.rollout(); it is not recorded\n"
    )
    assert recorded.spans == []


def test_uninstrumenting_puts_the_very_objects_back(program, name_functions):
    rewards, loop = program("named_rewards"), program("named_loop")
    before = [dict(vars(rewards)), dict(vars(rewards.Judge)), dict(vars(loop))]
    paths = ("correct", "Judge", "Judge.fixed", "Judge.static", "Judge.of_class")
    name_functions("named_loop:turns", ",".join(f"named_rewards:{path}" for path in paths))
    assert before[0]["correct"] is not rewards.correct
    NamedFunctionsInstrumentor().uninstrument()
    assert [dict(vars(rewards)), dict(vars(rewards.Judge)), dict(vars(loop))] == before


@pytest.mark.parametrize("path", ["Judge.fixed", "Judge.static", "Judge.of_class", "Base.__call__"])
def test_methods_of_all_kinds_are_recorded_under_their_names(program, name_functions, recorded, path):
    name_functions(rewards=f"named_rewards:{path}")
    rewards = program("named_rewards")
    name = path.partition(".")[2]
    assert getattr(rewards.Judge(), name)("4") in (0.25, 0.5, 0.75, 1.0)
    assert names(recorded) == [path.removesuffix(".__call__")]


def test_signature_kind_name_pickle_and_isinstance_stay(program, name_functions):
    name_functions("named_loop:collect,named_loop:turns", "named_rewards:correct,named_rewards:Judge")
    rewards, loop = program("named_rewards"), program("named_loop")
    assert str(inspect.signature(rewards.correct)) == "(answer, /, *, expected='4')"
    assert (rewards.correct.__name__, rewards.correct.__doc__) == ("correct", "Of the program.")
    assert isinstance(rewards.correct, types.FunctionType)
    assert pickle.loads(pickle.dumps(rewards.correct)) is rewards.correct  # noqa: S301 - our own bytes
    assert inspect.iscoroutinefunction(loop.collect)
    assert inspect.isgeneratorfunction(loop.turns)
    assert isinstance(rewards.judge, rewards.Judge)
    assert type(pickle.loads(pickle.dumps(rewards.Base()))) is rewards.Base  # noqa: S301 - our own bytes
    with pytest.raises(TypeError, match="positional"):
        rewards.correct(answer="4")


def test_what_a_function_raises_arrives_as_it_is(program, name_functions, recorded):
    name_functions("named_loop:turns")
    error = KeyError("mine")
    turns = program("named_loop").turns("q")
    assert next(turns) == "q"
    with pytest.raises(KeyError) as caught:
        turns.throw(error)
    assert caught.value is error
    assert recorded.span("rl.rollout").attributes["rl.rollout.status"] == "failed"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("corect", "is missing: named_rewards has no corect"),
        ("Judge.run", "is missing: Judge has no run"),
        ("number", "is no function but an object of class int"),
        ("number.real", "leads through int, which is no class"),
        ("Plain", "is a class without __call__: name a method of it"),
        ("Plain.score", "is no function but an object of class int"),
        ("Plain.limit", "is no function but an object of class property"),
        ("Judge.name", "is no function but an object of class member_descriptor"),
        ("judge", "is no function but an object of class Judge: name the function, or __call__ of the class"),
        ("cached", "is no function but an object of class _lru_cache_wrapper: name the function"),
        ("Sealed.score", "cannot be replaced (RuntimeError: frozen)"),
    ],
)
def test_what_cannot_be_recorded_is_said_in_one_line_and_the_others_are(
    program, name_functions, recorded, path, reason
):
    said = name_functions(rewards=f"named_rewards:{path},named_rewards:correct")
    rewards = program("named_rewards")
    line = said()
    assert line.count("\n") == 1
    assert line.startswith(f"otel-rl: OTEL_RL_REWARD_FUNCTIONS: named_rewards:{path} {reason}")
    assert state()["state"] == "degraded"
    assert reason in state()["reason"]
    rewards.correct("4")
    assert names(recorded) == ["correct"]


def test_a_function_that_is_named_twice_is_recorded_once(program, name_functions, recorded):
    said = name_functions(rewards="named_rewards:Judge,named_rewards:Judge.__call__,named_rewards:Judge")
    program("named_rewards").Judge()("4")
    assert names(recorded) == ["Judge"]
    assert "named_rewards:Judge.__call__ is named twice" in said()


def test_in_a_diamond_the_method_is_called_that_python_would_find(program, name_functions, recorded):
    name_functions(rewards="named_rewards:Lenient.__call__,named_rewards:OfClass.made_by")
    rewards = program("named_rewards")
    assert rewards.Both()("4") == 0.125
    assert rewards.Lenient()("4") == 0.25
    assert names(recorded) == ["Lenient", "Lenient"]
    assert rewards.OfClass.made_by() == "OfClass"
    assert rewards.Strict.made_by() == "Strict"
    assert names(recorded) == ["Lenient", "Lenient", "OfClass.made_by"]
    NamedFunctionsInstrumentor().uninstrument()
    assert "__call__" not in vars(rewards.Lenient)


@pytest.mark.parametrize("order", [("Lenient", "Base"), ("Base", "Lenient")])
def test_a_method_and_that_of_its_base_are_one_call(program, name_functions, recorded, order):
    name_functions(rewards=",".join(f"named_rewards:{kind}" for kind in order))
    rewards = program("named_rewards")
    assert rewards.Lenient()("4") == rewards.Base()("4") == 0.25
    assert names(recorded) == [order[0], "Base"]


def test_a_class_that_is_decorated_and_inherits_its_method_is_recorded_under_both_names(
    program, name_functions, recorded
):
    name_functions(rewards="named_rewards:Decorated")
    rewards = program("named_rewards")
    assert rewards.Decorated()("4") == 0.25
    assert names(recorded) == ["by its decorator", "Decorated"]
    assert rewards.DecoratedDiamond()("4") == 0.125
    recorded.clear()
    NamedFunctionsInstrumentor().uninstrument()
    assert rewards.Decorated()("4") == 0.25
    assert names(recorded) == ["by its decorator"]


def test_builtin_classes_are_left_alone(name_functions):
    said = name_functions(rewards="builtins:dict.get,builtins:len")
    assert {}.get(1) is None
    assert said().count("\n") == 2


def test_functions_of_the_script_itself_are_refused_with_what_to_do(name_functions):
    said = name_functions("__main__:collect")
    assert "__main__:collect is the script itself" in said()
    assert "otel_rl.rollout()" in state()["reason"]


def test_a_module_that_is_never_imported_shows_as_the_state(program, name_functions):
    said = name_functions("named_loop:collect")
    assert state() == {"state": "degraded", "reason": "module named_loop was not imported in this process"}
    assert said() == ""


def test_a_package_that_is_not_on_the_import_path_is_said_at_the_start_and_recorded_once_it_is(
    name_functions, tmp_path, monkeypatch, recorded
):
    (tmp_path / "late_rewards").mkdir()
    (tmp_path / "late_rewards" / "__init__.py").write_text("raise SystemExit('imported to look for it')")
    said = name_functions(rewards="late_rewards.judges:correct")
    assert said() == (
        "otel-rl: OTEL_RL_REWARD_FUNCTIONS: late_rewards.judges:correct cannot be found: no late_rewards on the import"
        " path. Check the name, unless the program adds to sys.path\n"
    )
    reason = "module late_rewards.judges was not imported in this process and is not on the import path"
    assert state() == {"state": "degraded", "reason": reason}
    # The folder of a script, which the program gets only after our start.
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "train").symlink_to(tmp_path / "train.py")
    for target in ("train.py", "train", ".", "elsewhere/train"):
        assert can_be_found("late_rewards.judges", ["python", str(tmp_path / target)]), target
    assert not can_be_found("late_rewards.judges", ["python", str(tmp_path / "elsewhere" / "train.py")])
    (tmp_path / "late_rewards" / "__init__.py").write_text("")
    (tmp_path / "late_rewards" / "judges.py").write_text("def correct(): return 1.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert importlib.import_module("late_rewards.judges").correct() == 1.0
    assert names(recorded) == ["correct"]
    assert state()["state"] == "active"
    for name in ("late_rewards", "late_rewards.judges"):
        del sys.modules[name]


@pytest.mark.parametrize("text", ["my_pkg.rewards", "my_pkg:", ":correct", "my pkg:f", "a:b:c", "a.b:c-d"])
def test_a_name_that_cannot_be_read_costs_one_line(text):
    found, complaints = settings.load({"OTEL_RL_REWARD_FUNCTIONS": text})
    assert found.reward_functions is None
    accepted = "module:function, module:Class.method or module:Class, separated by commas"
    line = f'otel-rl: OTEL_RL_REWARD_FUNCTIONS="{text}" is not valid (accepted: {accepted}); using (none)'
    assert complaints == [line]


def test_a_wrapper_that_somebody_has_covered_records_nothing_after_uninstrumenting(program, name_functions, recorded):
    name_functions(rewards="named_rewards:correct")
    rewards = program("named_rewards")
    ours = rewards.correct

    @functools.wraps(ours)
    def theirs(answer):
        return ours(answer)

    rewards.correct = theirs
    NamedFunctionsInstrumentor().uninstrument()
    assert rewards.correct("4") == 1.0
    assert recorded.spans == []
