"""PromQL built from metric definitions, so that no board or rule spells a metric or label name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboards.lib.names import label_name, prometheus_name
from otel_rl.semconv import attributes
from otel_rl.telemetry.attribute_values import CANCELLATIONS

if TYPE_CHECKING:
    from otel_rl.semconv.definitions import MetricDefinition

#: The averaging window that the board's user chooses. Not ``$__rate_interval``: that is a minute at a close zoom, and a
#: training step often lasts longer, so that most points would be empty.
WINDOW = "$window"
RANGE = "$__range"
DAY = 86_400


@dataclass(frozen=True, slots=True)
class Match:
    """A condition on one attribute: ``operator`` is that of PromQL and LogQL (``=``, ``!=``, ``=~``, ``!~``)."""

    attribute: str
    value: str
    operator: str = "="

    def __str__(self) -> str:
        return f'{label_name(self.attribute)}{self.operator}"{self.value}"'


THIS_RUN = Match(attributes.RL_RUN_ID, "$run")
CHOSEN_RANKS = Match(attributes.RL_RANK, "$rank", "=~")
#: What ended in an error; what was cancelled did not, as `telemetry.attribute_values.is_cancellation` has it.
FAILED = Match(attributes.ERROR_TYPE, rf"|(.*\\.)?({'|'.join(sorted(CANCELLATIONS))})", "!~")


def series(metric: MetricDefinition, *matches: Match, part: str = "", run: Match | None = THIS_RUN) -> str:
    """Return a selector of ``metric``; ``part``: histogram's ``bucket``, ``sum`` or ``count``; ``run=None``: any."""
    name = prometheus_name(metric) + (f"_{part}" if part else "")
    conditions = ", ".join(str(match) for match in ((run, *matches) if run else matches))
    return f"{name}{{{conditions}}}" if conditions else name


def recorded(rule: str, *matches: Match) -> str:
    """Return the selector of a recording rule's series, for the chosen run."""
    return f"{rule}{{{', '.join(str(match) for match in (THIS_RUN, *matches))}}}"


def by(*keys: str) -> str:
    """``by (...)`` for registry attributes; ``le`` stands for itself."""
    return f"by ({', '.join(label_name(key) for key in keys)})"


def on(*keys: str) -> str:
    """``on (...)`` for registry attributes."""
    return by(*keys).replace("by", "on", 1)


def increased(selector: str, window: str) -> str:
    """Return the increase within the window; ``increase`` alone misses the event with which a counter appears."""
    return f"{selector} unless {selector} offset {window} or increase({selector}[{window}])"


def remembered(rule: str, times: str) -> str:
    """Return ``times`` (Unix seconds), or where a series has ended what ``rule`` recorded last, for a day.

    The rule reads what it has recorded itself, so ``times`` is looked at now only and not over the whole day. Half an
    hour without Prometheus is bridged.
    """
    return f"{times}\n  or\n(last_over_time({rule}[30m]) > time() - {DAY})"


def aggregate(function: str, expression: str, *keys: str) -> str:
    """Return ``function`` (sum, max, ...) over ``expression``, one series for each value of ``keys``."""
    return f"{function} {by(*keys)} ({expression})" if keys else f"{function}({expression})"


def rate(metric: MetricDefinition, *keys: str, where: tuple[Match, ...] = (), part: str = "") -> str:
    """Increase per second of a counter, or of one part of a histogram, summed by ``keys``."""
    return aggregate("sum", f"rate({series(metric, *where, part=part)}[{WINDOW}])", *keys)


def increase(metric: MetricDefinition, *keys: str, where: tuple[Match, ...] = (), part: str = "") -> str:
    """Increase over the whole visible time range, summed by ``keys``."""
    return aggregate("sum", f"increase({series(metric, *where, part=part)}[{RANGE}])", *keys)


def mean(histogram: MetricDefinition, *keys: str, where: tuple[Match, ...] = ()) -> str:
    """Mean of what a histogram recorded, by ``keys``."""
    return f"{rate(histogram, *keys, where=where, part='sum')} / {rate(histogram, *keys, where=where, part='count')}"


def quantile(share: float, histogram: MetricDefinition, *keys: str, where: tuple[Match, ...] = ()) -> str:
    """Return the value below which ``share`` of what the histogram recorded lies, by ``keys``."""
    return f"histogram_quantile({share}, {rate(histogram, 'le', *keys, where=where, part='bucket')})"


def buckets(histogram: MetricDefinition, *, where: tuple[Match, ...] = ()) -> str:
    """Return the buckets of a histogram, for a heatmap."""
    return f"sum by (le) (increase({series(histogram, *where, part='bucket')}[{WINDOW}]))"


def latest(gauge: MetricDefinition, *keys: str, where: tuple[Match, ...] = ()) -> str:
    """Return a gauge's value by ``keys``; a resumed run's two processes overlap for minutes and become one line."""
    return aggregate("max", series(gauge, *where), *keys)


def zero_if_none(expression: str, present: MetricDefinition, key: str | None = None) -> str:
    """``expression``, or 0 where it has no series although the run reports ``present``.

    A counter of bad things has no series until the first one; an empty panel would not tell "none" from "not known".
    ``key`` is the attribute by which ``expression`` is grouped; the zero carries the value ``none`` for it.
    """
    part = "count" if present.instrument == "histogram" else ""
    zero = f"0 * {rate(present)}" if present.instrument == "counter" else f"0 * count({series(present, part=part)})"
    if key is not None:
        zero = f'label_replace({zero}, "{label_name(key)}", "none", "", "")'
    return f"{expression} or {zero}"
