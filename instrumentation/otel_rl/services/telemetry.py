"""Whether requests are recorded, and with what; imports nothing else until they are."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

_served: Any = None
_import_failed = False


def served() -> Any:
    """Return :mod:`otel_rl.services.served`; None while telemetry is off, or where another SDK breaks its import."""
    global _served, _import_failed
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or getattr(trace, "_TRACER_PROVIDER", None) is None or _import_failed:
        return None
    if _served is None:
        try:
            _served = import_module("otel_rl.services.served")
        except Exception:  # noqa: BLE001 - none of ours may reach the program
            # An import that failed would be tried again, slowly, at every request.
            _import_failed = True
            from otel_rl.core.guard import logger  # noqa: PLC0415 - nothing is imported before

            logger.warning("otel-rl: requests of this service are not recorded", exc_info=True)
    return _served
