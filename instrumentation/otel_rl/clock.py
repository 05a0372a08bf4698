"""The wall clock of everything that is recorded."""

from __future__ import annotations

import time

#: Nanoseconds since the epoch.
now = time.time_ns
