"""The folder that one start of role local writes into: jobs beside each other get one each, without being told."""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.collector.checks.host import DATA_DIRECTORY, files_of
from otel_rl.collector.parts.choices import LOCAL
from otel_rl.collector.parts.files import shipped
from otel_rl.collector.parts.variables import names_in
from otel_rl.process import launch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.collector.parts.choices import Selection

_NOTABLE = 10**9
"""Bytes of other starts' files from which a start mentions them."""
_SIGNAL_FILE = re.compile(r"(traces|metrics|logs)(-\d{4}-\d\d-\d\dT.*)?\.jsonl")
"""A file that the exporters of role local write, or one that they closed when it was full."""


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


def in_words(actual: Mapping[str, Any], own: str = "") -> list[str]:
    """Say where the files go, and how much other starts left beside ``own``, the folder made for this one."""
    folders = dict.fromkeys(path.parent for path in files_of(actual).values())
    lines = [f"writes into {', '.join(map(str, folders))}"] if folders else []
    beside = Path(own).parent
    if own and (size := _size(beside)) >= _NOTABLE:
        lines.append(f"files of other starts in {beside} take {size / 1e9:.1f} GB; remove what you no longer need")
    return lines


def _size(folder: Path) -> int:
    """Return the bytes of collectors' files in a folder and in the folders of starts in it, and of no other files."""
    size = 0
    for file in chain(folder.glob("*.jsonl"), folder.glob("*/*.jsonl")):
        if _SIGNAL_FILE.fullmatch(file.name):
            with suppress(OSError):
                size += file.stat().st_size
    return size
