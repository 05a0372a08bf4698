"""A run while it is written: ``otel-rl live`` and ``otel-rl top``.

Modules:
    follower: the aggregates of a run that grows, and snapshots of them.
"""
