"""The clocks of everything that is recorded."""

from __future__ import annotations

import time

#: Nanoseconds since the epoch.
now = time.time_ns
#: Seconds on a clock that never goes back, for durations.
counter = time.perf_counter
