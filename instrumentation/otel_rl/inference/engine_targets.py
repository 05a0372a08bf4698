"""Engines that have shown by an answer what they are: those whose own metrics are worth asking for.

Each process writes those that it has met into a file of its own, in the form of Prometheus' ``file_sd``
(https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config). A collector scrapes them,
and so does the process that leads the run (:mod:`otel_rl.inference.engine_metrics`). The files lie in the folder that
``OTEL_RL_ENGINE_TARGETS`` names, which several jobs may share, else beside the files of the run, if it has any.
"""

# ruff: noqa: PTH112 - of a folder that may not be looked into, pathlib raises

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.core import settings
from otel_rl.process import process_identity
from otel_rl.process.launch import safe
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.store.writer import process_store
from otel_rl.telemetry import deferral, lifecycle, propagation

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Engines that one process tells of, and files that are looked into.
MOST = 64
_MOST_FILES = 256
_FOLDER = "engine-targets"
#: Longest file that is read, in bytes.
_LONGEST = 65_536

#: ``host:port`` of the engines that this process has met.
_met: dict[str, None] = {}
_has_ended = False


def note(address: str, port: int | None) -> None:
    """Note that the server at a private address has answered as an engine does; cheap, for the program's thread."""
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    if port is not None and where not in _met and len(_met) < MOST:
        _met[where] = None
        deferral.post(Signal.METRICS, _write)


def may_know_any() -> bool:
    """Return whether it is worth calling :func:`known`."""
    return bool(_met) or _folder(must_exist=True) is not None


def known() -> list[str]:
    """Return the engines that any process of the run on this file system has told of; for threads that may wait."""
    found = dict.fromkeys(_met)
    folder = _folder()
    if folder is not None:
        with suppress(OSError):
            for path in sorted(folder.glob("*.json"))[:_MOST_FILES]:
                found.update(dict.fromkeys(_targets(path)))
    return list(found)


def _targets(path: Path) -> Iterator[str]:
    """Yield the targets of this run at private addresses: what lies in a folder is anybody's."""
    with suppress(OSError, ValueError, LookupError, RecursionError, TypeError, AttributeError):
        if path.is_symlink() or not path.is_file():
            return
        with path.open("rb") as file:
            groups = json.loads(file.read(_LONGEST))
        run = process_identity.current().id
        for group in groups:
            if group["labels"].get("rl_run_id") == run:
                yield from (target for target in map(str, group["targets"][:MOST]) if _is_private(target))


def _is_private(target: str) -> bool:
    return "@" not in target and propagation.may_have_baggage(target.rpartition(":")[0].strip("[]"))


def _folder(*, must_exist: bool = False) -> Path | None:
    named = settings.current().engine_targets
    run = process_store.run_directory()
    folder = run / _FOLDER if named is None else Path(named)
    if must_exist:
        return folder if os.path.isdir(folder) else None
    return folder if named is not None or os.path.isdir(run) else None


def _path() -> Path | None:
    folder = _folder()
    host = safe(socket.gethostname())
    return None if folder is None else folder / f"{process_store.run_name()}-{host}-{os.getpid()}.json"


def _write() -> None:
    path = None if _has_ended else _path()
    if path is None:
        return
    labels = {"rl_run_id": process_identity.current().id or "", "rl_role": "engine"}
    groups = [{"targets": list(_met), "labels": labels}]
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".part")
        half.write_text(json.dumps(groups, indent=1))
        half.replace(path)


def _remove() -> None:
    """Remove the file of this process: the engines may end with the run."""
    global _has_ended
    _has_ended = True
    path = _path() if _met else None
    if path is not None:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        if settings.current().engine_targets is None:
            with suppress(OSError):
                path.parent.rmdir()


def _after_fork_in_child() -> None:
    global _has_ended
    _met.clear()
    _has_ended = False


lifecycle.before_shutdown(_remove)
lifecycle.after_fork_in_child(_after_fork_in_child)
