"""``manifest.json``: who wrote a directory of the file store, when, how it ended, and what it had to drop."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import remove_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = "otel-rl/1"
NAME = "manifest.json"


def write(directory: Path, content: Mapping[str, Any]) -> None:
    """Replace the manifest in one step: a reader sees the old one or the new one.

    Raises:
        OSError: where the directory cannot be written.
    """
    temporary = directory / f".{NAME}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, **content}, file, indent=1)
            file.write("\n")
        replace_file(temporary, directory / NAME)
    except OSError:
        remove_file(temporary)
        raise


def dropped_by_signal(drops: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """``{(signal, reason): n}`` as the manifest holds it: ``{signal: {reason: n}}``."""
    nested: dict[str, dict[str, int]] = {}
    for (signal, reason), number in sorted(drops.items()):
        nested.setdefault(signal, {})[reason] = number
    return nested
