"""Values as a log call hands them over: copied on the program's thread, made exact on an I/O thread.

The copy holds nothing that the program may change or that keeps its memory alive: numbers, texts, truth values, None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any

from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops, redaction
from otel_rl.telemetry.attribute_values import is_tensor, number
from otel_rl.telemetry.content_capture import capture

#: Most values of one log call, and of one step by :func:`otel_rl.metric`.
MAXIMUM_VALUES = 1024
#: Levels of mappings in mappings that are followed.
MAXIMUM_DEPTH = 4
#: Keys under which programs log the step among the values, the first that is there counts. The callbacks of
#: Transformers and Lightning give wandb and Trackio no other step, OpenRLHF and slime give wandb none.
STEP_KEYS = (
    "step",
    "global_step",
    "train/global_step",
    "trainer/global_step",
    "eval/global_step",
    "train/step",
    "rollout/step",
    "eval/step",
    "timesteps",
    "policy_version",
    "update",
)
#: Objects that trackers show, by the names of their classes in lower case -> the reason for which they are left out.
_SHOWN = {
    **{kind: kind for kind in ("audio", "histogram", "image", "table", "video")},
    "figure": "image",
    "dataframe": "table",
}
#: Reasons why something that was logged is not recorded that are no loss: a tracker shows it, or the user hides it.
LEFT_OUT_BY_CHOICE = frozenset({*_SHOWN.values(), "array", "text", "hidden"})
_PLAIN, _NAMES = frozenset({float, int, str, bool, type(None)}), frozenset({str})
#: OTLP carries whole numbers of 64 bit.
_INTEGERS = 1 << 63

Scalar = float | int | str | bool | None


def taken(values: Mapping[Any, Any], separator: str = "/") -> dict[str, Scalar]:
    """Return a copy of what can be recorded; what cannot be is counted. Tensors on a device are not looked at.

    ``separator`` stands between the keys of a mapping in a mapping, as the tracker writes it.
    """
    if len(values) > MAXIMUM_VALUES:
        drops.count(Signal.LOGS, "value_limit", len(values) - MAXIMUM_VALUES)
        copied = dict(islice(values.items(), MAXIMUM_VALUES))
    else:
        copied = dict(values)
    # Without a loop of Python: mostly there is nothing to convert.
    if _PLAIN.issuperset(map(type, copied.values())) and _NAMES.issuperset(map(type, copied)):
        return copied
    return _converted(copied, separator)


def without_content(values: dict[str, Scalar]) -> dict[str, Scalar]:
    """Return ``values`` without texts, which are counted; where the user wants content, with texts that may pass.

    What a program shows in a tracker may be prompts and completions.
    """
    if str not in map(type, values.values()):
        return values
    if any(capture()):
        passed = {key: redaction.text(value, "logs") if type(value) is str else value for key, value in values.items()}
        return {key: value for key, value in passed.items() if value is not None or values[key] is None}
    kept = {key: value for key, value in values.items() if type(value) is not str}
    drops.count(Signal.LOGS, "text", len(values) - len(kept))
    return kept


def _converted(values: Mapping[Any, Any], separator: str) -> dict[str, Scalar]:
    flat: dict[str, Scalar] = {}
    _flatten(values, "", separator, flat)
    return flat


def _flatten(values: Mapping[Any, Any], prefix: str, separator: str, flat: dict[str, Scalar]) -> None:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and prefix.count(separator) < MAXIMUM_DEPTH:
            _flatten(value, f"{name}{separator}", separator, flat)
        elif len(flat) >= MAXIMUM_VALUES:
            drops.count(Signal.LOGS, "value_limit")
        else:
            kept = plain(value)
            if kept is not None or value is None:
                flat[name] = kept


def plain(value: Any) -> Scalar:
    """Return a number, text or truth value without its library; None, and a count, for anything else but None."""
    if type(value) in _PLAIN:
        return value  # type: ignore[no-any-return]
    if isinstance(value, str):
        return str.__str__(value)
    scalar = number(value)
    if scalar is None:
        drops.count(Signal.LOGS, _reason(value))
    return scalar


def _reason(value: Any) -> str:
    """Say why ``value`` is left out, in one of a few words."""
    if isinstance(value, list | tuple) and value:
        # wandb takes lists of images.
        value = value[0]
    if is_tensor(value):
        return "device_tensor" if getattr(value, "shape", None) in ((), (1,)) else "array"
    return _SHOWN.get(type(value).__name__.lower().removeprefix("trackio"), "unsupported_type")


def exact(values: Mapping[str, Scalar]) -> tuple[dict[str, Scalar], dict[str, float | int]]:
    """Return the values as they can be recorded, and the numbers among them."""
    body: dict[str, Scalar] = {}
    numbers: dict[str, float | int] = {}
    for key, value in values.items():
        if value is None or isinstance(value, bool | str):
            body[key] = value
        elif (scalar := in_range(value)) is None:
            drops.count(Signal.LOGS, "non_finite")
        else:
            body[key] = numbers[key] = scalar
    return body, numbers


def in_range(value: float) -> float | None:
    """Return a whole number beyond 64 bit as a float; None where it is beyond a float too."""
    if type(value) is not int or -_INTEGERS <= value < _INTEGERS:
        return value
    try:
        return float(value)
    except OverflowError:
        return None


def step_number(value: Any) -> int | None:
    """Return a step as a whole number; None for anything that is none, 1.5 for one, and that OTLP cannot carry."""
    if type(value) is not int:
        scalar = None if value is None or isinstance(value, bool) else number(value)
        if scalar is None or not math.isfinite(scalar) or scalar != int(scalar):
            return None
        value = int(scalar)
    return value if -_INTEGERS <= value < _INTEGERS else None


def step_among(values: Mapping[Any, Any]) -> tuple[str, int] | None:
    """Return the key among ``values`` that has the step, and the step; None where there is none."""
    for key in STEP_KEYS:
        if key in values:
            step = step_number(values[key])
            if step is not None:
                return key, step
    return None
