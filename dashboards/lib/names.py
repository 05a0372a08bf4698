"""How a name of the registry reads in Prometheus, Loki and Tempo.

Prometheus and Loki rename what arrives over OTLP. The rules here are those of ``github.com/prometheus/otlptranslator``
1.0 under its default strategy ``UnderscoreEscapingWithSuffixes``, which Prometheus 3 uses unless told otherwise.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from otel_rl.semconv import entities

if TYPE_CHECKING:
    from otel_rl.semconv.definitions import MetricDefinition

_UNITS = {
    "d": "days",
    "h": "hours",
    "min": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "By": "bytes",
    "KiBy": "kibibytes",
    "MiBy": "mebibytes",
    "GiBy": "gibibytes",
    "TiBy": "tibibytes",
    "KBy": "kilobytes",
    "MBy": "megabytes",
    "GBy": "gigabytes",
    "TBy": "terabytes",
    "m": "meters",
    "V": "volts",
    "A": "amperes",
    "J": "joules",
    "W": "watts",
    "g": "grams",
    "Cel": "celsius",
    "Hz": "hertz",
    "1": "",
    "%": "percent",
}
_PER_UNITS = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month", "y": "year"}

#: Attributes of the resource: a label of every series where Prometheus promotes them, `resource.` in TraceQL.
RESOURCE_ATTRIBUTES = frozenset(
    attribute
    for entity in (entities.RL_TRAINING_RUN, entities.RL_PROCESS)
    for attribute in (*entity.identity, *entity.attributes)
)


def prometheus_name(metric: MetricDefinition) -> str:
    """Return the Prometheus name of ``metric``, without a classic histogram's ``_bucket``, ``_sum`` or ``_count``."""
    words = re.findall(r"[A-Za-z0-9:]+", metric.name)
    words += [suffix for suffix in _unit_suffixes(metric.unit) if suffix and suffix not in words]
    if metric.instrument == "counter":
        words = [word for word in words if word != "total"] + ["total"]
    if metric.instrument == "gauge" and metric.unit == "1":
        words = [word for word in words if word != "ratio"] + ["ratio"]
    name = "_".join(words)
    return f"_{name}" if name[0].isdigit() else name


def _unit_suffixes(unit: str) -> tuple[str, str]:
    main, _, per = unit.partition("/")
    per_suffix = _unit_suffix(per, _PER_UNITS)
    return _unit_suffix(main, _UNITS), f"per_{per_suffix}" if per_suffix else ""


def _unit_suffix(unit: str, dictionary: dict[str, str]) -> str:
    if "{" in unit or "}" in unit:  # an annotation such as `{token}` names what is counted; it is not a unit
        return ""
    return re.sub(r"[^A-Za-z0-9:]+", "_", dictionary.get(unit.strip(), unit.strip())).strip("_")


def label_name(attribute: str) -> str:
    """Return the name of ``attribute`` as a Prometheus label and as Loki structured metadata."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", attribute)
    return f"key_{name}" if name[0].isdigit() else name


def shown(*attributes: str) -> str:
    """Return the values of the labels of ``attributes``, as a legend prints them."""
    return " ".join(f"{{{{{label_name(attribute)}}}}}" for attribute in attributes)


def alert_label(attribute: str) -> str:
    """Return the value of the label of ``attribute`` in the text of an alert."""
    return f"{{{{ $labels.{label_name(attribute)} }}}}"


def traceql_name(attribute: str) -> str:
    """``attribute`` with the scope in which TraceQL finds it."""
    return f"resource.{attribute}" if attribute in RESOURCE_ATTRIBUTES else f"span.{attribute}"
