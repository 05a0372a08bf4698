"""The folder that one start of role local writes into: jobs beside each other get one each, without being told."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from otel_rl.collector.checks.host import DATA_DIRECTORY, files_of
from otel_rl.collector.parts.choices import LOCAL
from otel_rl.collector.parts.files import shipped
from otel_rl.collector.parts.variables import names_in
from otel_rl.process import launch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from otel_rl.collector.parts.choices import Selection

_NOTABLE = 10**9
"""Bytes of other starts that a start speaks of."""


def for_this_start(selection: Selection, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, for role local with a new folder below the default one unless the user has named a folder.

    Host, process and time make the name one of its own, also where several machines share the file system.
    """
    if selection.role != LOCAL or environ.get(DATA_DIRECTORY, "").strip():
        return dict(environ)
    default = names_in(shipped("local.yaml").text)[DATA_DIRECTORY]
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"{moment}-{launch.safe(socket.gethostname())}-{os.getpid()}"
    return {**environ, DATA_DIRECTORY: f"{default}/{name}"}


def in_words(actual: Mapping[str, Any], *, is_own: bool) -> list[str]:
    """Say where the files go, and how much other starts left beside a folder of its own, which nothing removes."""
    folders = dict.fromkeys(path.parent for path in files_of(actual).values())
    lines = [f"writes into {', '.join(map(str, folders))}"] if folders else []
    beside = {folder.parent: _size(folder.parent) for folder in folders} if is_own else {}
    return lines + [
        f"files of other starts in {folder} take {size / 1e9:.1f} GB; remove what you no longer need"
        for folder, size in beside.items()
        if size >= _NOTABLE
    ]


def _size(folder: Path) -> int:
    size = 0
    for file in folder.rglob("*.jsonl"):
        with suppress(OSError):
            size += file.stat().st_size
    return size
