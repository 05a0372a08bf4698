"""``TRACEPARENT``, ``TRACESTATE``, ``BAGGAGE`` of the environment, read once at start; children inherit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_VARIABLES = {"TRACEPARENT": "traceparent", "TRACESTATE": "tracestate", "BAGGAGE": "baggage"}


def adopt(environ: Mapping[str, str]) -> None:
    """The trace becomes the run span's parent, the baggage applies to everything that the main thread records.

    The trace is not made current: thousands of rollouts would become one trace.
    """
    carrier = {header: environ[name] for name, header in _VARIABLES.items() if environ.get(name)}
    if not carrier:
        return
    from opentelemetry.baggage.propagation import W3CBaggagePropagator  # noqa: PLC0415 - rarely needed
    from opentelemetry.context import attach  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    from otel_rl.telemetry import run_span  # noqa: PLC0415

    if "baggage" in carrier:
        attach(W3CBaggagePropagator().extract(carrier))
    run_span.set_parent(TraceContextTextMapPropagator().extract(carrier))
