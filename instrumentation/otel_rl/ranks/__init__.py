"""Ranks that are late, hang, or died; each package reads the rings of :mod:`otel_rl.flight_recorder`.

Packages:
    stragglers: which rank the others wait for, while the job runs.
    watchdog: a hang, while it lasts.
    postmortem: where each rank is or was last, and who waits for whom.
"""
