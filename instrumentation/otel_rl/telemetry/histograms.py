"""Many measurements of one histogram at once.

A step of RL scores hundreds of samples. The SDK takes about 6 µs for each measurement of a histogram, the same for all
of them with the same attributes but for the bucket. It has no call for several values. So we add to the aggregation
that the first measurement has made, under its lock, as ``_ExplicitBucketHistogramAggregation.aggregate`` does
(``opentelemetry.sdk.metrics._internal.aggregation``, SDK 1.44 and 1.45). Where the SDK's internals differ, or a view
asks for another aggregation, each value is recorded by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context, set_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: By name: without this class in a later SDK, everything else must still work.
_CLASS = "_ExplicitBucketHistogramAggregation"
_FIELDS = ("_lock", "_boundaries", "_value", "_sum", "_min", "_max", "_record_min_max", "_get_empty_bucket_counts")
#: Measurements in it carry no exemplar, which is a third of what each costs. The entry is there because the SDK takes
#: the current context for an empty one.
NO_SPAN = set_value("otel_rl.no_span", True, Context())


def record_all(
    record: Callable[..., None], values: Sequence[float], labels: Mapping[str, Any], context: Context | None
) -> None:
    """Call ``record(value, labels, ...)`` for all ``values``, or do what comes to the same.

    Only the first one has an exemplar. ``values`` are finite floats, ``record`` is the method of an SDK histogram.
    """
    if not values:
        return
    record(values[0], labels, context)
    rest = values[1:]
    try:
        aggregations = _aggregations(record, labels)
    except AttributeError:
        aggregations = None
    if aggregations is None:
        for value in rest:
            record(value, labels, NO_SPAN)
        return
    for aggregation in aggregations:
        _add(aggregation, rest)


def _aggregations(record: Callable[..., None], labels: Mapping[str, Any]) -> list[Any] | None:
    """What the SDK adds a measurement with ``labels`` to; None where that is not a histogram of explicit buckets."""
    instrument: Any = record.__self__  # type: ignore[attr-defined]  # AttributeError is expected here
    instrument = getattr(instrument, "_real_instrument", None) or instrument
    found: list[Any] = []
    for reader in instrument._measurement_consumer._reader_storages.values():  # noqa: SLF001
        for match in reader._get_or_init_view_instrument_match(instrument):  # noqa: SLF001
            if match._view._attribute_keys is not None:  # noqa: SLF001
                return None
            same = [
                aggregation
                for aggregation in list(match._attributes_aggregation.values())  # noqa: SLF001
                if aggregation._attributes == labels  # noqa: SLF001
            ]
            if len(same) != 1 or not _is_known(same[0]):
                return None
            found += same
    return found


def _is_known(aggregation: Any) -> bool:
    return type(aggregation).__name__ == _CLASS and all(hasattr(aggregation, field) for field in _FIELDS)


def _add(aggregation: Any, values: Sequence[float]) -> None:
    boundaries = aggregation._boundaries  # noqa: SLF001
    with aggregation._lock:  # noqa: SLF001
        # A collection of another thread has emptied it after the first value.
        counts = aggregation._value  # noqa: SLF001
        if counts is None:
            counts = aggregation._value = aggregation._get_empty_bucket_counts()  # noqa: SLF001
        aggregation._sum += sum(values)  # noqa: SLF001
        if aggregation._record_min_max and values:  # noqa: SLF001
            aggregation._min = min(aggregation._min, *values)  # noqa: SLF001
            aggregation._max = max(aggregation._max, *values)  # noqa: SLF001
        for value in values:
            counts[bisect_left(boundaries, value)] += 1
