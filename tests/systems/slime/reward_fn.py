"""A reward for a model that knows nothing: the share of letters in its answer, so that samples differ."""

from __future__ import annotations

from typing import Any


async def letters(args: Any, sample: Any, **_: Any) -> float:
    """Score one sample."""
    return sum(map(str.isalpha, sample.response)) / max(len(sample.response), 1)
