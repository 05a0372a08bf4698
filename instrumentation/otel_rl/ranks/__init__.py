"""Ranks that are late, hang, or died; each package reads the rings of :mod:`otel_rl.flight_recorder`.

Packages:
    model: group, collective and wait, as all of them see it.
    stragglers: which rank the others wait for, while the job runs.
    watchdog: a hang, while it lasts.
    postmortem: where each rank is or was last, and who waits for whom.
"""
