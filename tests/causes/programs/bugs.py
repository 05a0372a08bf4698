"""The bug of a program, if the environment names one; the code that has it asks."""

from __future__ import annotations

import os
import random
import time

#: Name of the bug; "" for a healthy program.
BUG = os.environ.get("CAUSES_BUG", "")
#: The step that the program is in, from 1; the loop sets it.
now = {"step": 0}


def has(name: str, since: int = 1, every: int = 1) -> bool:
    """Whether the program has this bug in the present step."""
    return name == BUG and now["step"] >= since and (now["step"] - since) % every == 0


def wait(seconds: float, spread: float = 0.2) -> None:
    """Wait for something outside for about this long, as a call over a network does."""
    time.sleep(seconds * random.lognormvariate(0.0, spread))
