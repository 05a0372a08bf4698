"""The curves that rules read: bounded histories of the inputs, found under the keys of any trainer."""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.health.rule_table import INPUTS, RULES
from otel_rl.semconv.attributes import RlHealthCodeValues as Code
from otel_rl.training.key_categories import TRAINER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

#: Values of a curve that are kept, at least; twice as many at most.
KEPT = 128
_MOST_KEPT = 2 * KEPT
#: First values that are kept for good, to compare with; and so few that the usual change is the mean of all.
FIRST = 16
_FEW = FIRST // 2
#: Most keys whose input is remembered; further ones are looked up again each time.
MAXIMUM_KEYS = 4096
#: Sets of keys whose inputs are remembered together, and most keys of one.
_MOST_SETS, _MOST_KEYS_OF_SET = 8, 512
#: Most curves of one input that has several, such as one for each reward function.
MAXIMUM_CURVES = 16
#: Log calls without its key after which an input takes another key that is logged.
KEY_SWITCH_CALLS = 10
#: Values of a curve with which a more trusted key still takes its place.
MAXIMUM_AGE_FOR_BETTER_KEY = 3
#: Latest values in which the beginning of a fall is looked for, and the fewest before it.
FALL_WINDOW, FALL_MINIMUM_BEFORE = 40, 3
#: Weight of the latest change in the usual one, and its largest size in multiples of the usual one.
CHANGE_WEIGHT, LARGEST_CHANGE = 1 / 16, 4.0
#: Rank of what this package has measured.
OWN_RANK = -1
#: The inputs that have one curve for each of their keys.
FUNCTIONS = "reward_function"
_MANY = (FUNCTIONS, "failed_calls", "call_seconds")
#: Inputs that a log call does not give, whatever its keys, where it has one of these keys too.
EXCLUDING_KEYS = {
    name: frozenset({*item.not_beside, *(f"{TRAINER_PREFIX}{key}" for key in item.not_beside)})
    for name, item in INPUTS.items()
    if item.not_beside
}
_NO_KEYS: frozenset[str] = frozenset()
#: Words of a prefix behind which a name means something else: an evaluation, a time, another model, one reward of many,
#: an extreme. What torch itself knows of a loop is no value of a trainer.
FOREIGN_WORDS = frozenset({
    "eval", "evaluation", "val", "valid", "validation", "test", "timing", "time", "perf", "profiling",
    "critic", "value", "vf", "q", "ref", "reference", "teacher", "draft", "corr", "distillation",
    "aux", "moe", "mtp", "attention", "reward", "rewards", "score", "scores", "advantage", "advantages",
    "best", "min", "max", "std", "ema", "target", "torch",
})  # fmt: skip
_WORD = re.compile(r"[^a-z0-9]+")
#: Keys behind a prefix that no trainer is known for come after all that are listed; most parts of a key that are read.
BEHIND_PREFIX, _MOST_PARTS = 1000, 8
#: Inputs that must be finite. A reward function may give none for a whole batch, and its mean is then no number.
FINITE_INPUTS = frozenset(name for needed in RULES[Code.NON_FINITE].needs for name in needed)


def middle(values: Sequence[float]) -> float:
    """Return the median; ``statistics`` would cost milliseconds to import."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


class InputWindow:
    """The latest values of one input, and the first ones."""

    __slots__ = (
        "_first", "_nows", "_starts", "alike", "alike_since", "best", "change", "firsts", "key", "last", "number",
        "peak", "values",
    )  # fmt: skip

    def __init__(self, key: str) -> None:
        self.key = key
        self.values: list[float] = []
        #: The first step that each value covers.
        self.firsts: list[int] = []
        self._first: list[float] = []
        #: Medians that have been asked for: of the first values, and of the latest ones since the last value came.
        self._starts: dict[float, float] = {}
        self._nows: dict[float, float] = {}
        #: Of a curve that is asked for it: how many values it was found in, and the best median of three in a row.
        self.best = (0, float("-inf"))
        #: The last step that has a value; how many values there have been.
        self.last, self.number = -1, 0
        #: The usual change from one value to the next, and the largest value.
        self.change, self.peak = 0.0, float("-inf")
        #: How many of the latest values are the same as the last, to the last digit, and since which step.
        self.alike, self.alike_since = 0, -1

    def add(self, first: int, last: int, value: float) -> None:
        """Add the value that the trainer logged for the steps ``first`` to ``last``."""
        # Without calls where that is possible: this runs for every input of every log call.
        values, number, change = self.values, self.number, self.change
        if number and value == values[-1]:
            self.alike += 1
        else:
            self.alike, self.alike_since = 1, first
        if number:
            step = value - values[-1]
            if step < 0:
                step = -step
            if number > _FEW:
                if step > LARGEST_CHANGE * change > 0:
                    step = LARGEST_CHANGE * change
                self.change = change + (step - change) * CHANGE_WEIGHT
            else:
                self.change = change + (step - change) / number
        values.append(value)
        if self._nows:
            self._nows.clear()
        self.firsts.append(first)
        self.last = last
        self.number = number + 1
        if value > self.peak:  # noqa: PLR1730 - as above
            self.peak = value
        if number < FIRST:
            self._first.append(value)
        elif len(values) > _MOST_KEPT:
            del values[:KEPT], self.firsts[:KEPT]

    def now(self, window: float) -> float:
        """Median of the latest values."""
        known = self._nows.get(window)
        if known is None:
            # As in `middle`: the rules ask for most of what is new.
            ordered = sorted(self.values[-int(window) :])
            half = len(ordered) // 2
            known = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
            self._nows[window] = known
        return known

    def start(self, number: float) -> float | None:
        """Median of the first values; None while there are fewer."""
        known = self._starts.get(number)
        if known is None and self.number >= (count := min(int(number), FIRST)):
            known = self._starts[number] = middle(self._first[:count])
        return known

    def highest(self) -> float:
        """Return the best median of three values in a row; at least three are needed."""
        number, best = self.best
        if number < self.number:
            new = min(self.number - number, len(self.values) - 2)
            values = self.values[-new - 2 :]
            best = max(best, *(middle(values[index : index + 3]) for index in range(new)))
            self.best = (self.number, best)
        return best

    def since(self, test: Callable[[float], bool], gap: int = 0) -> int:
        """First step of the latest values that all pass ``test``; ``gap`` values in a row may fail in between."""
        earliest, failed = len(self.values) - 1, 0
        for index in range(earliest, -1, -1):
            if test(self.values[index]):
                earliest, failed = index, 0
            else:
                failed += 1
                if failed > gap:
                    break
        return self.firsts[earliest]

    def began_to_fall(self) -> int:
        """Return the step at which the latest values left their level, by least squares.

        What is below is a line that falls from the level, or a lower level. Noise before the fall moves neither, as it
        would move the step that first passes a threshold.
        """
        values = self.values[-FALL_WINDOW:]
        errors = [_error_of_fall(values, place) for place in range(FALL_MINIMUM_BEFORE, len(values))]
        best = min(range(len(errors)), key=errors.__getitem__) + FALL_MINIMUM_BEFORE if errors else 0
        return self.firsts[best - len(values)]


def _error_of_fall(values: Sequence[float], place: int) -> float:
    """Sum of squares of what a level up to ``place`` and a fall from there on leave unexplained."""
    level = sum(values[:place]) / place
    before = sum([(value - level) ** 2 for value in values[:place]])
    below = [value - level for value in values[place:]]
    along = sum([number * value for number, value in enumerate(below, 1)])
    if along >= 0:
        return inf
    total, count = sum(below), len(below)
    line = along * along / (count * (count + 1) * (2 * count + 1) / 6)
    lower = total * total / count if total < 0 else 0.0
    return before + sum([value * value for value in below]) - max(line, lower)


class NotFiniteValue(NamedTuple):
    """A value that is NaN or infinite, of the log call for the steps ``first`` to ``last``."""

    first: int
    last: int
    key: str
    #: All other values of the log call are finite.
    only_gradient: bool
    is_nan: bool

    @property
    def covered(self) -> int:
        """How many steps the log call is for."""
        return self.last - self.first + 1


class Curves:
    """All inputs of one loop."""

    def __init__(self, keys: Mapping[str, tuple[str, ...]]) -> None:
        self._exact: dict[str, tuple[str, int]] = {}
        self._patterns: list[tuple[re.Pattern[str], str, int]] = []
        for name, of_input in keys.items():
            for rank, key in enumerate((*of_input, INPUTS[name].metric)):
                if "*" in key:
                    pattern = "(.+)".join(map(re.escape, key.split("*")))
                    self._patterns.append((re.compile(pattern), name, rank))
                elif key:
                    self._exact.setdefault(key, (name, rank))
        self._found: dict[str, tuple[str, int] | None] = {}
        #: Sets of keys as programs log them, in their order -> those that give an input.
        self._sets: dict[tuple[str, ...], list[tuple[str, tuple[str, int]]]] = {}
        self._by_input: dict[str, InputWindow] = {}
        #: The curve of an input; None where it has not been logged. No method: each rule asks at each step.
        self.get = self._by_input.get
        self._ranks: dict[str, int] = {}
        self._absent: dict[str, int] = {}
        #: Curves of inputs that have several, of the reward functions, and of the seconds of the phases, by name.
        self.many: dict[str, dict[str, InputWindow]] = {name: {} for name in _MANY}
        self.functions = self.many[FUNCTIONS]
        self.phases: dict[str, InputWindow] = {}
        #: The latest log calls with values that are not finite.
        self.not_finite: list[NotFiniteValue] = []
        #: First and last step that had any value; and how many steps the latest log call covers.
        self.first, self.last, self.covered = -1, -1, 1

    def has(self, name: str) -> bool:
        """Return whether the input has been logged."""
        return bool(self.many[name]) if name in self.many else name in self._by_input

    def input_of(self, key: str) -> tuple[str, int] | None:
        """Return the input that a key of a trainer gives, and how far back in its list the key is."""
        try:
            return self._found[key]
        except KeyError:
            known_input = (
                self._look_up(key)
                or (self._look_up(key.removeprefix(TRAINER_PREFIX)) if key.startswith(TRAINER_PREFIX) else None)
                or self._behind_prefix(key)
            )
            if len(self._found) < MAXIMUM_KEYS:
                self._found[key] = known_input
            return known_input

    def known(self, values: Mapping[str, Any]) -> list[tuple[str, float, tuple[str, int]]]:
        """Return the keys that give an input, with their numbers; most keys of most trainers give no input."""
        keys = tuple(values)
        of_inputs = self._sets.get(keys)
        if of_inputs is None:
            of_inputs = self._inputs_of(keys)
        numbers = []
        for key, known_input in of_inputs:
            value = values[key]
            if type(value) is float or (value := _as_float(value)) is not None:
                numbers.append((key, value, known_input))
        return numbers

    def _inputs_of(self, keys: tuple[str, ...]) -> list[tuple[str, tuple[str, int]]]:
        """Return the keys of a log call that give an input, and remember them: a trainer logs few sets of keys."""
        found = []
        for key in keys:
            known_input = self.input_of(key)
            if known_input is not None and EXCLUDING_KEYS.get(known_input[0], _NO_KEYS).isdisjoint(keys):
                found.append((key, known_input))
        if len(keys) <= _MOST_KEYS_OF_SET:
            if len(self._sets) >= _MOST_SETS:
                self._sets.clear()
            self._sets[keys] = found
        return found

    def _look_up(self, key: str) -> tuple[str, int] | None:
        exact = self._exact.get(key)
        if exact is not None:
            return exact
        return next(((name, rank) for pattern, name, rank in self._patterns if pattern.fullmatch(key)), None)

    def _behind_prefix(self, key: str) -> tuple[str, int] | None:
        """Return the input of a key whatever its case and prefix, unless the prefix gives it another meaning."""
        parts = key.lower().split("/", _MOST_PARTS)
        for place in range(len(parts)):
            if place and not FOREIGN_WORDS.isdisjoint(_WORD.split(parts[place - 1])):
                return None
            if (known := self._look_up("/".join(parts[place:]))) is not None:
                return known[0], known[1] + BEHIND_PREFIX
        return None

    def goes_back(self, last: int, key: str, name: str) -> bool:
        """Return whether ``key`` has a value of a later step already: the steps have begun again."""
        curve = self.many[name].get(key) if name in self.many else self._by_input.get(name)
        return curve is not None and curve.key == key and curve.last > last

    def add(self, first: int, last: int, key: str, value: float, known_input: tuple[str, int]) -> str | None:
        """Take in a value of the input that the key gives; return the input's name if the value is new."""
        name, rank = known_input
        curve = self._by_input.get(name)
        if curve is None or curve.key != key or self._absent:
            curve = _one_of(self.many[name], key) if name in self.many else self._curve(name, rank, key)
        if curve is None or curve.last >= last:
            return None
        if value - value != 0:  # NaN and the infinities
            if name in FINITE_INPUTS:
                self._add_not_finite(NotFiniteValue(first, last, key, name == "gradient_norm", value != value))  # noqa: PLR0124
            curve.last = last
            return name
        curve.add(first, last, value)
        return name

    def _curve(self, name: str, rank: int, key: str) -> InputWindow | None:
        curve = self._by_input.get(name)
        if curve is not None and curve.key == key:
            if name in self._absent:
                del self._absent[name]
            return curve
        if self._ranks.get(name) == OWN_RANK:
            return None
        if curve is not None:
            missing = self._absent[name] = self._absent.get(name, 0) + 1
            is_better = rank < self._ranks[name] and curve.number < MAXIMUM_AGE_FOR_BETTER_KEY
            # The trainer logs both: the one found first stays.
            if not is_better and missing <= KEY_SWITCH_CALLS:
                return None
        self._ranks[name] = rank
        self._absent.pop(name, None)
        curve = self._by_input[name] = InputWindow(key)
        return curve

    def _add_not_finite(self, value: NotFiniteValue) -> None:
        if self.not_finite and self.not_finite[-1].last == value.last:
            if value.only_gradient:
                return
            self.not_finite.pop()
        self.not_finite.append(value)
        del self.not_finite[:-KEPT]

    def add_own(self, name: str, key: str, step: int, value: float) -> None:
        """Take in a value that this package has measured: it wins over the trainer's."""
        curve = self._by_input.get(name)
        if curve is None or curve.key != key:
            curve = self._by_input[name] = InputWindow(key)
            self._ranks[name] = OWN_RANK
        if curve.last < step:
            curve.add(step, step, value)

    def add_phases(self, step: int, seconds: Mapping[str, float]) -> None:
        """Take in the seconds that a step spent in each phase; one that is not among them took none."""
        if not seconds.keys() <= self.phases.keys():
            self._begin_phases(step, seconds.keys() - self.phases.keys())
        for name, curve in self.phases.items():
            if curve.last < step:
                curve.add(step, step, seconds.get(name, 0.0))

    def _begin_phases(self, step: int, names: Iterable[str]) -> None:
        for name in sorted(names):
            if len(self.phases) < MAXIMUM_CURVES:
                curve = self.phases[name] = InputWindow(name)
                # It was in none of the steps before.
                earlier = min(self._by_input["step_time"].number - 1, KEPT)
                curve.values, curve.firsts = [0.0] * earlier, [step] * earlier


def _one_of(curves: dict[str, InputWindow], key: str) -> InputWindow | None:
    curve = curves.get(key)
    if curve is None and len(curves) < MAXIMUM_CURVES:
        curve = curves[key] = InputWindow(key)
    return curve


def _as_float(value: Any) -> float | None:
    """Return a number as a float; None for texts, booleans and whatever else trainers log."""
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf
