"""``TRACEPARENT``, ``TRACESTATE``, ``BAGGAGE`` of the environment, read once at start; children inherit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context

_VARIABLES = {"TRACEPARENT": "traceparent", "TRACESTATE": "tracestate", "BAGGAGE": "baggage"}


def adopt(environ: Mapping[str, str]) -> Context | None:
    """Attach the inherited baggage to the main thread and return the inherited trace, None without one.

    The trace is not made current: thousands of rollouts would become one trace. It is the run span's parent.
    """
    carrier = {header: environ[name] for name, header in _VARIABLES.items() if environ.get(name)}
    if not carrier:
        return None
    from opentelemetry.baggage.propagation import W3CBaggagePropagator  # noqa: PLC0415 - rarely needed
    from opentelemetry.context import attach  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    if "baggage" in carrier:
        attach(W3CBaggagePropagator().extract(carrier))
    return TraceContextTextMapPropagator().extract(carrier)
