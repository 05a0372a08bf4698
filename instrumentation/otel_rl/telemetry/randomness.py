"""A random generator of our own: a seeded program must draw the same numbers with and without us."""

from __future__ import annotations

import random as _random

from otel_rl.telemetry import lifecycle

#: Seeded from the operating system, independent of the ``random`` module's global state.
random = _random.Random()  # noqa: S311 - reservoirs and jitter, not cryptography

# A forked child would otherwise repeat its parent's draws.
lifecycle.after_fork_in_child(random.seed)
