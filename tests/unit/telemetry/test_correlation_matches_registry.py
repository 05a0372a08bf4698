"""The registry says which baggage entries become attributes; the code must copy exactly those."""

from __future__ import annotations

from otel_rl.semconv import attributes
from otel_rl.telemetry.correlation import ALLOWED


def test_every_correlation_attribute_of_the_registry_is_copied_and_no_other():
    assert set(ALLOWED) == set(attributes.CORRELATION)
