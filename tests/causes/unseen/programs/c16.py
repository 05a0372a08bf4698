"""A job."""

from __future__ import annotations

import grpo


def brevity(completions, **_):
    """1 for fourteen characters."""
    return [1.0 - min(abs(len(text) - 14) / 14, 1.0) for text in completions]


grpo.brevity = brevity

if __name__ == "__main__":
    grpo.main()
