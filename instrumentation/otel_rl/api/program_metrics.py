"""Metrics that the program names, and values of its rollouts; names and attributes are bounded."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from otel_rl.api.user_messages import say_no_number
from otel_rl.core import own_cpu
from otel_rl.core.guard import guard
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.definitions import MetricDefinition
from otel_rl.telemetry import drops, open_trajectory
from otel_rl.telemetry.attribute_values import number, plain, text
from otel_rl.telemetry.cardinality_budgets import MAXIMUM_LENGTH
from otel_rl.telemetry.scope import Scope, enabled

if TYPE_CHECKING:
    from collections.abc import Mapping

_scope = Scope("api")
#: Most metrics of a process, most sets of attributes of a metric, and most attributes of a set.
MOST_METRICS, MOST_SETS, MOST_ATTRIBUTES = 100, 200, 8
#: What OpenTelemetry takes for the name and for the unit of an instrument.
_NAME, _UNIT = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]{0,254}"), re.compile(r"[ -~]{0,63}")
#: Names of ours.
_RESERVED = re.compile(r"(?i)rl\.|otel[._]")
_OF_REGISTRY = frozenset(metric.name for metric in vars(metrics).values() if isinstance(metric, MetricDefinition))
#: The attribute that the metrics SDK of OpenTelemetry sets on what has no room for its own attributes.
_OVERFLOW = {"otel.metric.overflow": True}
COUNTER, HISTOGRAM, GAUGE = "counter", "histogram", "gauge"

_definitions: dict[str, MetricDefinition] = {}
_sets: dict[str, set[Any]] = {}


@own_cpu.estimated("producer.count")
def count(name: Any, value: Any, unit: Any, values: Mapping[str, Any]) -> None:
    """See :func:`otel_rl.count`."""
    with guard("producer.count"):
        _measure(COUNTER, name, value, unit, values)


@own_cpu.estimated("producer.observe")
def observe(name: Any, value: Any, unit: Any, values: Mapping[str, Any]) -> None:
    """See :func:`otel_rl.observe`."""
    with guard("producer.observe"):
        _measure(HISTOGRAM, name, value, unit, values)


@own_cpu.estimated("producer.gauge")
def gauge(name: Any, value: Any, unit: Any, values: Mapping[str, Any]) -> None:
    """See :func:`otel_rl.gauge`."""
    with guard("producer.gauge"):
        _measure(GAUGE, name, value, unit, values)


@own_cpu.estimated("producer.rollout_metric")
def rollout_metric(name: Any, value: Any) -> None:
    """See :func:`otel_rl.rollout_metric`."""
    with guard("producer.rollout_metric"):
        given = _finite(name, value)
        trajectory = open_trajectory.current()
        if given is None:
            return
        if trajectory is None:
            drops.count("metrics", "no_rollout")
        elif not trajectory.add_metric(name, given):
            drops.count("metrics", "cardinality")


def _measure(kind: str, name: Any, value: Any, unit: Any, values: Mapping[str, Any]) -> None:
    given = _finite(name, value)
    if given is None or not enabled():
        return
    if kind == COUNTER and given < 0:
        drops.count("metrics", "negative")
        return
    definition = _definitions.get(name) if isinstance(name, str) else None
    if definition is None:
        definition = _define(kind, name, unit)
    if definition is None:
        return
    if definition.instrument != kind or unit not in ("", definition.unit):
        drops.count("metrics", "instrument_conflict")
        return
    labels = _labels(definition.name, values)
    # The last value of many things at once would say nothing.
    if kind != GAUGE or labels is not _OVERFLOW:
        _scope.measure_or_defer(definition, given, labels)


def _finite(name: object, value: Any) -> float | None:
    finite = number(value)
    if finite is None:
        drops.count("metrics", "unsupported_type")
        say_no_number("the value of", name, value)
        return None
    try:
        if math.isfinite(finite):
            return float(finite)
    except OverflowError:
        pass
    drops.count("metrics", "non_finite")
    return None


def _define(kind: str, name: Any, unit: Any) -> MetricDefinition | None:
    is_one = isinstance(name, str) and _NAME.fullmatch(name) and isinstance(unit, str) and _UNIT.fullmatch(unit)
    if not is_one or _RESERVED.match(name) or name.lower() in _OF_REGISTRY:
        drops.count("metrics", "invalid_name")
        return None
    # Instruments whose names differ in case only are one for the SDK.
    for known, definition in _definitions.items():
        if known.lower() == name.lower():
            return definition
    if len(_definitions) >= MOST_METRICS:
        drops.count("metrics", "metric_limit")
        return None
    boundaries = metrics.RL_ROLLOUT_DURATION.boundaries if kind == HISTOGRAM and unit == "s" else None
    definition = MetricDefinition(name, kind, unit, "Named by the program", boundaries)
    return _definitions.setdefault(name, definition)


def _labels(metric: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes as they may leave the process; sets beyond the limit share one."""
    if not values:
        return {}
    labels: dict[str, Any] = {}
    for key, value in values.items():
        if value is None:
            continue
        if key in attributes.IDENTIFIERS:
            # Each id would be a series of its own.
            drops.count("metrics", "identifier")
        elif len(labels) >= MOST_ATTRIBUTES:
            drops.count("metrics", "attribute_limit")
        else:
            labels[text(key, MAXIMUM_LENGTH)] = _label(value)
    # True, 1 and 1.0 are one key, but three series of the SDK.
    member = tuple(sorted((key, type(value).__name__, value) for key, value in labels.items()))
    known = _sets.setdefault(metric, set())
    if member not in known:
        if len(known) >= MOST_SETS:
            drops.count("metrics", "cardinality")
            return _OVERFLOW
        known.add(member)
    return labels


def _label(value: Any) -> Any:
    label = plain(value)
    if isinstance(label, float) and not math.isfinite(label):
        return str(label)
    return label if isinstance(label, bool | int | float) else text(str(label), MAXIMUM_LENGTH)
