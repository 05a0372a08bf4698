"""Baggage of ours around a test's calls."""

from __future__ import annotations

from contextlib import contextmanager

from opentelemetry.context import attach, detach

from otel_rl.telemetry.correlation import baggage_context


@contextmanager
def with_baggage(entries):
    """Everything started inside carries these entries."""
    token = attach(baggage_context(entries))
    try:
        yield
    finally:
        detach(token)
