"""Process start and end: our OpenTelemetry distro.

``opentelemetry-instrument python train.py`` picks it with nothing set, by :mod:`otel_rl.distro.environment_variables`.
A program that calls ``opentelemetry.instrumentation.auto_instrumentation.initialize()`` itself, or an operator that
sets ``PYTHONPATH``, sets ``OTEL_PYTHON_DISTRO=otel_rl`` and ``OTEL_PYTHON_CONFIGURATOR=otel_rl``.

=========================  ================================================================================
``bootstrap``              the ``sitecustomize`` that Python children find
``configurator``           the SDK, set up from a file or from the environment
``distro``                 for programs that upstream's own start-up sets up
``environment_variables``  imported by ``opentelemetry-instrument`` before it starts the program
``import_path``            ``PYTHONPATH`` and the program's modules, as without us
``instrument_command``     ``opentelemetry-instrument``: arguments and import path of the program
``loader``                 instrumentors, ours and others', loaded when their library is imported
``own_triggers``           modules whose import loads one of ours, generated
``ray_hook``               Ray's hook for the environment of its workers
``rooms``                  the rooms of the pack, in layers
``start``                  order of the start, in the first process and in its children
``trigger_modules``        modules whose import loads an instrumentor of others
=========================  ================================================================================
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
