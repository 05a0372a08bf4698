"""The rules in force: the defaults, and the file that a user names in ``OTEL_RL_HEALTH_RULES``.

    inputs:
      repetition: [my/repeated_share]     # further keys of an input; they come before the known ones
    rules:
      P3_kl_explosion:
        kl_warning: 2 nat                 # the unit may be left out
      P9_truncation: off

YAML where PyYAML can be imported, JSON otherwise. A file with a mistake is refused as a whole.
"""

from __future__ import annotations

import json
import re
import reprlib
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.health.rule_definitions import Rules
from otel_rl.health.rule_table import INPUTS, RULES

if TYPE_CHECKING:
    from collections.abc import Collection

#: Largest file that is read: PyYAML takes a second for so much.
MAXIMUM_FILE_BYTES = 1 << 16
_NUMBER = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(.*)")
#: Limits that count log calls or steps: whole numbers from 1.
COUNTING_UNITS = frozenset({"{step}", "{evaluation}"})
#: Longest count that a curve keeps values for.
MAXIMUM_COUNT = 128
#: Keys below keys whose lines are known; a limit is the third.
MAXIMUM_DEPTH = 2
SIMILARITY_CUTOFF = 0.6
#: A key with more would take long to compare.
MAXIMUM_STARS = 3


class RefusedRulesError(ValueError):
    """The user's file cannot be used; the message says why, and where in the file."""


def defaults() -> Rules:
    """Return the rules without a file."""
    return Rules(
        {name: item.keys for name, item in INPUTS.items()},
        {code: {name: limit.value for name, limit in rule.limits.items()} for code, rule in RULES.items()},
    )


def load(path: str | None) -> tuple[Rules, str]:
    """Return the rules in force, and a complaint about the file ``path``, or nothing. Never raises for a bad file."""
    if not path:
        return defaults(), ""
    try:
        return read(Path(path)), ""
    except RefusedRulesError as error:
        return defaults(), f"otel-rl: OTEL_RL_HEALTH_RULES: {error}; the default health rules are in force"


def read(path: Path) -> Rules:
    """Return the rules with the changes of the file.

    Raises:
        RefusedRulesError: it cannot be read, or has a mistake.
    """
    try:
        raw = _content(path)
        text = raw.decode("utf-8")
    except OSError as error:
        raise RefusedRulesError(f"{path}: {error.strerror or type(error).__name__}") from error
    except UnicodeDecodeError as error:
        raise RefusedRulesError(f"{path}: is no text in UTF-8") from error
    if len(raw) > MAXIMUM_FILE_BYTES:
        raise RefusedRulesError(f"{path}: is larger than {MAXIMUM_FILE_BYTES} bytes")
    return _RulesFile(path, text).rules()


def _content(path: Path) -> bytes:
    """Read the first bytes of the file; a pipe would never end.

    Raises:
        RefusedRulesError: it is no file.
        OSError: it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise RefusedRulesError(f"{path}: is not a file")
    with path.open("rb") as stream:
        return stream.read(MAXIMUM_FILE_BYTES + 1)


class _RulesFile:
    """One file while it is read."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text
        #: Place of a key in the file -> its line, counted from 1; empty where the parser does not tell.
        self._lines: dict[tuple[str, ...], int] = {}

    def rules(self) -> Rules:
        usual = defaults()
        content = self._mapping((), self._parsed())
        self._known((), content, ("inputs", "rules"))
        keys, limits = dict(usual.keys), {code: dict(of_rule) for code, of_rule in usual.limits.items()}
        for name, given in self._mapping(("inputs",), content.get("inputs") or {}).items():
            self._known(("inputs",), {name: given}, INPUTS)
            keys[name] = (*self._keys(("inputs", name), given), *keys[name])
        for code, given in self._mapping(("rules",), content.get("rules") or {}).items():
            self._known(("rules",), {code: given}, RULES)
            if self._is_off(("rules", code), given):
                del limits[code]
            elif given is not True:
                self._override(code, given, limits[code])
        return Rules(keys, limits)

    # -- parsing ---------------------------------------------------------------------------------------------------

    def _parsed(self) -> Any:
        try:
            import yaml  # noqa: PLC0415 - only for a file of a user; not among our dependencies
        except ImportError:
            return self._json()
        try:
            node = yaml.compose(self._text, Loader=yaml.SafeLoader)
            if node is None:
                return {}
            self._mark(node, ())
            return yaml.safe_load(self._text)
        except RefusedRulesError:
            raise
        except Exception as error:  # a wrong tag leads to any error: https://github.com/yaml/pyyaml/issues/312
            mark = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or type(error).__name__
            raise self._refusal(f"is no YAML: {reason}", mark.line + 1 if mark is not None else None) from error

    def _json(self) -> Any:
        try:
            return json.loads(self._text, object_pairs_hook=self._once)
        except json.JSONDecodeError as error:
            hint = " (PyYAML is not installed, so the file is read as JSON)"
            raise self._refusal(f"is no JSON: {error.msg}{hint}", error.lineno) from error
        except RecursionError as error:
            raise self._refusal("is no JSON: it nests too deep", None) from error
        except RefusedRulesError:
            raise
        except ValueError as error:
            raise self._refusal(f"is no JSON: {error}", None) from error

    def _once(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in pairs:
            if key in mapping:
                raise self._refusal(f"{key} is there twice", self._line_of_text(key))
            mapping[key] = value
        return mapping

    def _mark(self, node: Any, place: tuple[str, ...]) -> None:
        """Remember the lines of keys, and refuse one that is there twice."""
        if node.id != "mapping" or len(place) > MAXIMUM_DEPTH:
            return
        for key, value in node.value:
            if key.id != "scalar":
                continue
            inner = (*place, str(key.value))
            if inner in self._lines:
                raise self._refusal(f"{key.value} is there twice", key.start_mark.line + 1)
            self._lines[inner] = key.start_mark.line + 1
            self._mark(value, inner)

    # -- checking --------------------------------------------------------------------------------------------------

    def _mapping(self, place: tuple[str, ...], value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(place, f"must be a mapping of names to values, not {_shown(value)}")
        for key in value:
            if not isinstance(key, str):
                raise self._wrong(place, f"has the key {_shown(key)}, which is no text")
        return value

    def _known(self, place: tuple[str, ...], given: dict[str, Any], known: Collection[str]) -> None:
        for name in given:
            if name not in known:
                what = {(): "section", ("inputs",): "input", ("rules",): "rule"}.get(place) or f"limit of {place[-1]}"
                raise self._wrong((*place, name), f"is no {what}{_meant(name, known)}", bare=True)

    def _keys(self, place: tuple[str, ...], given: Any) -> list[str]:
        keys = [given] if isinstance(given, str) else given
        if not isinstance(keys, list) or not all(isinstance(key, str) and key for key in keys):
            raise self._wrong(place, f"must be a key of the trainer, or a list of them, not {_shown(given)}")
        if any(key.count("*") > MAXIMUM_STARS for key in keys):
            raise self._wrong(place, f"has a key with more than {MAXIMUM_STARS} stars")
        return keys

    def _is_off(self, place: tuple[str, ...], given: Any) -> bool:
        if given is False or (isinstance(given, str) and given.lower() == "off"):
            return True
        if given is True or isinstance(given, dict):
            return False
        raise self._wrong(place, f"must be off, or a mapping of limits to values, not {_shown(given)}")

    def _override(self, code: str, given: dict[str, Any], limits: dict[str, float]) -> None:
        place = ("rules", code)
        self._known(place, self._mapping(place, given), limits)
        for name, value in given.items():
            limit = RULES[code].limits[name]
            limits[name] = self._limit_value((*place, name), value, limit.unit)
        self._order(code, limits)

    def _order(self, code: str, limits: dict[str, float]) -> None:
        """Check that a warning comes before what is critical, on whichever side the default has it."""
        usual = RULES[code].limits
        for name, warning in limits.items():
            other = name.replace("warning", "critical")
            critical = limits.get(other)
            if other == name or critical is None:
                continue
            rises = usual[name].value <= usual[other].value
            if (warning > critical) if rises else (warning < critical):
                raise self._wrong(("rules", code), f"has {name} ({warning:g}) behind {other} ({critical:g})")

    def _limit_value(self, place: tuple[str, ...], value: Any, unit: str) -> float:
        if isinstance(value, str):
            value = self._with_unit(place, value, unit)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(place, f"must be a number{_in(unit)}, not {_shown(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = float("inf")
        if not 0 <= number < float("inf"):
            raise self._wrong(place, f"must be a number from 0 on, not {_shown(value)}")
        if unit in COUNTING_UNITS and (number != int(number) or not 1 <= number <= MAXIMUM_COUNT):
            raise self._wrong(place, f"counts steps: it must be a whole number from 1 to {MAXIMUM_COUNT}")
        return number

    def _with_unit(self, place: tuple[str, ...], text: str, unit: str) -> float:
        match = _NUMBER.fullmatch(text.strip())
        try:
            number = float(match.group(1)) if match else None
        except ValueError:
            number = None
        if match is None or number is None:
            raise self._wrong(place, f"must be a number{_in(unit)}, not {_shown(text)}")
        given = match.group(2).strip()
        if unit == "1" and given == "%":
            return number / 100
        if given and given.strip("{}") != unit.strip("{}"):
            raise self._wrong(place, f"is {_in(unit).strip() or 'without a unit'}, not in {given}")
        return number

    # -- messages --------------------------------------------------------------------------------------------------

    def _wrong(self, place: tuple[str, ...], reason: str, *, bare: bool = False) -> RefusedRulesError:
        name = place[-1] if bare else ".".join(place) or "the file"
        line = self._lines.get(place) or (self._line_of_text(place[-1]) if place else None)
        return self._refusal(f"{name} {reason}", line)

    def _line_of_text(self, key: str) -> int | None:
        """Where JSON is read no line is known: that of the first key with this name."""
        place = self._text.find(json.dumps(key))
        return self._text.count("\n", 0, place) + 1 if place >= 0 else None

    def _refusal(self, reason: str, line: int | None) -> RefusedRulesError:
        where = f"{self._path}, line {line}" if line is not None else str(self._path)
        return RefusedRulesError(f"{where}: {reason}")


def _shown(value: Any) -> str:
    # A few lines of YAML may stand for a list of more items than the memory has.
    text = reprlib.repr(value) if isinstance(value, (list, dict)) else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"  # noqa: PLR2004 - a line of a message


def _in(unit: str) -> str:
    return "" if unit == "1" else f" in {unit.strip('{}')}"


def _meant(name: str, known: Collection[str]) -> str:
    import difflib  # noqa: PLC0415 - only for a mistake

    begins = [candidate for candidate in known if len(name) > 1 and candidate.startswith(name)]
    near = begins or difflib.get_close_matches(name, list(known), 1, SIMILARITY_CUTOFF)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
