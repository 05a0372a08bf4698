# ruff: noqa: SLF001 - what the docstring describes has no public way
"""Histograms that take negative values, and many values at once.

Rewards are negative where a program punishes. ``Histogram.record`` of the SDK refuses negative amounts with a line in
the program's log (``opentelemetry.sdk.metrics._internal.instrument``, SDK 1.44 and 1.45), although its aggregations
take them. So we hand those to the SDK's measurement consumer, as ``record`` does with all others.

A step of RL scores hundreds of samples. The SDK takes about 6 µs for each measurement, the same for all of them with
the same attributes but for the bucket, and has no call for several values. So we add to the aggregation that the first
measurement has made, under its lock, as ``_ExplicitBucketHistogramAggregation.aggregate`` does
(``opentelemetry.sdk.metrics._internal.aggregation``, SDK 1.44 and 1.45). Where the SDK's internals differ, or a view
asks for another aggregation, each value is recorded by itself.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context, get_current, set_value

from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Labels = Mapping[str, Any]

#: By name: without this class in a later SDK, everything else must still work.
_CLASS = "_ExplicitBucketHistogramAggregation"
_FIELDS = ("_lock", "_boundaries", "_value", "_sum", "_min", "_max", "_record_min_max", "_get_empty_bucket_counts")
#: Measurements in it carry no exemplar, which is a third of what each costs. The entry is there because the SDK takes
#: the current context for an empty one.
NO_SPAN = set_value("otel_rl.no_span", True, Context())


class Histogram:
    """Records in an instrument that ``Meter.create_histogram`` has made; values are finite."""

    __slots__ = ("_instrument", "_record")

    def __init__(self, instrument: Any) -> None:
        self._instrument = instrument
        self._record = instrument.record

    def __call__(self, value: float, labels: Labels, context: Context | None) -> None:
        """Record one value."""
        if value >= 0:
            self._record(value, labels, context)
        else:
            self._record_negative(value, labels, context)

    def record_all(self, values: Sequence[float], labels: Labels, context: Context | None) -> None:
        """Record all ``values``; only the first one has an exemplar."""
        if not values:
            return
        self(values[0], labels, context)
        rest = values[1:]
        aggregations = self._aggregations(labels)
        if aggregations is None:
            for value in rest:
                self(value, labels, NO_SPAN)
            return
        for aggregation in aggregations:
            _add(aggregation, rest)

    def _record_negative(self, value: float, labels: Labels, context: Context | None) -> None:
        instrument = self._sdk_instrument()
        consumer = getattr(instrument, "_measurement_consumer", None)
        if consumer is None:
            # Another implementation of the API.
            drops.count("metrics", "negative")
            return
        if not instrument._is_enabled():
            return
        from opentelemetry.sdk.metrics._internal.measurement import Measurement  # noqa: PLC0415 - only with the SDK

        now = context if context is not None else get_current()
        consumer.consume_measurement(Measurement(value, time.time_ns(), instrument, now, labels))

    def _sdk_instrument(self) -> Any:
        # A provider that is set later than the meter was made puts the real instrument behind a proxy.
        return getattr(self._instrument, "_real_instrument", None) or self._instrument

    def _aggregations(self, labels: Labels) -> list[Any] | None:
        """Return the SDK's aggregations for ``labels``; None where these are no histograms that we know."""
        try:
            return self._find_aggregations(labels)
        except AttributeError:
            return None

    def _find_aggregations(self, labels: Labels) -> list[Any] | None:
        instrument, matching = self._sdk_instrument(), []
        for reader in instrument._measurement_consumer._reader_storages.values():
            for match in reader._get_or_init_view_instrument_match(instrument):
                aggregations = list(match._attributes_aggregation.values())
                same = [aggregation for aggregation in aggregations if aggregation._attributes == labels]
                if match._view._attribute_keys is not None or len(same) != 1 or not _is_known(same[0]):
                    return None
                matching += same
        return matching


def _is_known(aggregation: Any) -> bool:
    return type(aggregation).__name__ == _CLASS and all(hasattr(aggregation, field) for field in _FIELDS)


def _add(aggregation: Any, values: Sequence[float]) -> None:
    boundaries = aggregation._boundaries
    with aggregation._lock:
        # None when a collection of another thread has emptied it after the first value.
        counts = aggregation._value
        if counts is None:
            counts = aggregation._value = aggregation._get_empty_bucket_counts()
        aggregation._sum += sum(values)
        if aggregation._record_min_max and values:
            aggregation._min = min(aggregation._min, *values)
            aggregation._max = max(aggregation._max, *values)
        for value in values:
            counts[bisect_left(boundaries, value)] += 1
