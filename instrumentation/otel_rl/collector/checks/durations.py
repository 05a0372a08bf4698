"""Durations as Go writes them: 500ms, 15s, 1m30s."""

from __future__ import annotations

import re
from decimal import Decimal

SECOND = 1_000_000_000
_NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
_PART = r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h)"


def nanoseconds(text: str) -> Decimal | None:
    """Return the length of a duration, or None where the text is none."""
    if not re.fullmatch(f"(?:{_PART})+", text, re.ASCII):
        return None
    return sum((Decimal(number) * _NANOSECONDS[unit] for number, unit in re.findall(_PART, text, re.ASCII)), Decimal())
