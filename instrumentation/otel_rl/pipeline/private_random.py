"""The SDK draws ids, exemplar reservoirs and retry jitter from the program's random numbers: it gets its own generator.

A seeded program must draw the same numbers with and without us. Upstream has no setting for this, so the names in its
modules are rebound; a test compares ``random.getstate()``.
"""

from __future__ import annotations

import random as standard
import sys

from otel_rl.telemetry import lifecycle

#: Seeded from the operating system, independent of the state that the functions of ``random`` share.
private = standard.Random()  # noqa: S311 - reservoirs and jitter, not cryptography
# A forked child would otherwise repeat its parent's draws.
lifecycle.after_fork_in_child(private.seed)

_PREFIXES = ("opentelemetry.sdk.", "opentelemetry.exporter.")
_FUNCTIONS = ("randrange", "uniform", "getrandbits", "randint", "choice", "sample")


def isolate() -> None:
    """Rebind ``random`` and its functions in every SDK and exporter module that is loaded by now."""
    # No list(): a collection in the middle of it may let another thread import.
    for name, module in sys.modules.copy().items():
        if not name.startswith(_PREFIXES) or module is None:
            continue
        namespace = vars(module)
        if namespace.get("random") is standard:
            namespace["random"] = private
        for function in _FUNCTIONS:
            if namespace.get(function) == getattr(standard, function):
                namespace[function] = getattr(private, function)
