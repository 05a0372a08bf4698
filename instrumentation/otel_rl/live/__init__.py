"""A run while it is written: ``otel-rl live`` and ``otel-rl top``.

Modules:
    updates: the page of a run, and what has changed on it.
    page_state: the blocks and charts of that page, and what a browser has of them.
    follower: the aggregates of a run that grows, and snapshots of them.
"""
