"""Process start and end: our OpenTelemetry distro.

``opentelemetry-instrument python train.py`` picks it with nothing set, by :mod:`otel_rl.distro.environment_variables`.
A program that calls ``opentelemetry.instrumentation.auto_instrumentation.initialize()`` itself, or an operator that
sets ``PYTHONPATH``, sets ``OTEL_PYTHON_DISTRO=otel_rl`` and ``OTEL_PYTHON_CONFIGURATOR=otel_rl``.

==============================  ================================================================================
``launch``, ``policy``          the command line and environment: run id, who records
``start``                       the order of things at start, for the first process and for children
``plan``, ``configurator``      which exporters, and the providers
``batching``, ``metric_reader`` bounded delivery, begun by the first record
``loader``, ``targets``         instrumentors, ours and others', loaded when their library is imported
``forks``, ``exit``             a forked child on its own; bounded final delivery, the summary line
==============================  ================================================================================
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> Any:
    # Children are started without upstream's base class, which costs more than the rest of this package.
    if name == "OtelRlDistro":
        from otel_rl.distro.distro import OtelRlDistro  # noqa: PLC0415

        return OtelRlDistro
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
