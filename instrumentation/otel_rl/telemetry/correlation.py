"""Correlation travels as W3C baggage: set here, copied to spans and log records by an allow-list, sent on the wire.

Ids are for spans and logs only; metrics never carry them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from opentelemetry import baggage
from opentelemetry.context import get_current
from opentelemetry.sdk._logs import LogRecordProcessor
from opentelemetry.sdk.trace import SpanProcessor

from otel_rl.core.guard import guard
from otel_rl.semconv import attributes
from otel_rl.telemetry import drops, sampling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import ReadWriteLogRecord
    from opentelemetry.sdk.trace import ReadableSpan, Span

#: Baggage entries that become attributes, and their types; everything else in baggage stays on the wire only.
ALLOWED = {
    attributes.RL_RUN_ID: str,
    attributes.RL_LOOP_ITERATION: int,
    attributes.RL_ROLLOUT_ID: str,
    attributes.RL_SAMPLE_ID: str,
    attributes.RL_GROUP_ID: str,
    attributes.RL_ROLLOUT_ATTEMPT: int,
    attributes.RL_RUN_ATTEMPT: str,
    attributes.RL_POLICY_VERSION: str,
    attributes.RL_SAMPLING_PRIORITY: int,
    attributes.RL_SAMPLING_BEYOND_LIMIT: int,
}
#: In characters; ours are ids, so one is never this long.
MAXIMUM_VALUE_LENGTH = 256
#: Prefix of the baggage that is ours to send.
OURS = "rl."
#: What every platform has to hand on (https://www.w3.org/TR/baggage/#limits), the lengths in bytes.
MOST_MEMBERS, LONGEST_BAGGAGE = 64, 8192
#: A longer member stays out with a line in the program's log (opentelemetry-api 1.45, ``W3CBaggagePropagator``).
_LONGEST_MEMBER = 4096
#: A character is four bytes at most, and each of them three characters in a header.
_MOST_BYTES_OF_CHARACTER = 12


def baggage_context(entries: dict[str, object], context: Context | None = None) -> Context:
    """``context`` (default: the current one) with the allowed, known entries as baggage.

    Of a text that is too long there is a hash, which is the same for the same text: it joins what belongs together. It
    may be a prompt; the begin of it would be recorded where no content is wanted.
    """
    result = context if context is not None else get_current()
    for key, value in entries.items():
        if value is None or key not in ALLOWED:
            continue
        text = str(value)
        if len(text) > MAXIMUM_VALUE_LENGTH:
            drops.count("context", "baggage_value_too_long")
            from hashlib import blake2b  # noqa: PLC0415 - rarely needed

            text = f"hash-{blake2b(text.encode(errors='replace'), digest_size=16).hexdigest()}"
        result = baggage.set_baggage(key, text, result)
    return result


def is_ours(key: object) -> bool:
    """Return whether an entry with this key is ours to send; programs may have put keys there that are no text."""
    return isinstance(key, str) and key.startswith(OURS)


def within_limits(entries: Mapping[str, object]) -> Mapping[str, object]:
    """Return the ``entries`` to send, without those of ours that exceed the limits; these are counted.

    The program's own come first, and all of them: what is too much of them is not ours to say. One that is too long
    takes no room: the propagator leaves it out. Of ours the correlation entries come before others.
    """
    most = [(len(str(key)) + len(str(value)) + 2) * _MOST_BYTES_OF_CHARACTER for key, value in entries.items()]
    if len(most) <= MOST_MEMBERS and sum(most) <= LONGEST_BAGGAGE and max(most, default=0) <= _LONGEST_MEMBER:
        return entries
    kept = {key: value for key, value in entries.items() if not is_ours(key)}
    lengths = [_length_of_member(key, value) for key, value in kept.items()]
    # Each with a comma between it and the next.
    sent = [length + 1 for length in lengths if length <= _LONGEST_MEMBER]
    members, length = len(sent), sum(sent)
    for key in sorted(filter(is_ours, entries), key=lambda key: key not in ALLOWED):
        member = _length_of_member(key, entries[key])
        if member > _LONGEST_MEMBER or members >= MOST_MEMBERS or length + member > LONGEST_BAGGAGE:
            drops.count("context", "baggage_limit")
            continue
        kept[key] = entries[key]
        members += 1
        length += member + 1
    return kept


def _length_of_member(key: object, value: object) -> int:
    """Bytes of one member, as OpenTelemetry's propagator writes it."""
    return sum(len(quote_plus(str(part), errors="replace")) for part in (key, value)) + 1


def correlation_attributes(context: Context | None) -> dict[str, str | int]:
    """Return the allowed baggage of ``context`` as attributes."""
    values: dict[str, str | int] = {}
    for key, value in baggage.get_all(context).items():
        convert = ALLOWED.get(key)
        if convert is None or not isinstance(value, str):
            continue
        try:
            values[key] = convert(value)
        except ValueError:
            drops.count("context", "baggage_value_invalid")
    return values


class BaggageSpanProcessor(SpanProcessor):
    """Copies allowed baggage to every span at its start; what the span sets itself wins."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Copy; called on the thread that starts the span."""
        with guard("correlation.span"):
            values = correlation_attributes(parent_context)
            if values:
                own = span.attributes or {}
                span.set_attributes({key: value for key, value in values.items() if key not in own})
            sampling.pass_on(span)
            if sampling.adopt is not None:
                sampling.adopt(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Nothing to do at the end."""

    def shutdown(self) -> None:
        """Do nothing: it holds nothing."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is buffered."""
        return True


class BaggageLogRecordProcessor(LogRecordProcessor):
    """Copies allowed baggage to every log record."""

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Copy; what the record says itself wins."""
        with guard("correlation.log_record"):
            record = log_record.log_record
            values = correlation_attributes(record.context)
            # Log records are not sampled.
            values.pop(attributes.RL_SAMPLING_PRIORITY, None)
            values.pop(attributes.RL_SAMPLING_BEYOND_LIMIT, None)
            if values:
                record.attributes = {**values, **(record.attributes or {})}

    def shutdown(self) -> None:
        """Do nothing: it holds nothing."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is buffered."""
        return True
