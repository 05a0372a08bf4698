"""Engines that have shown by an answer what they are: those whose own metrics are worth asking for.

Each process writes those that it has met into a file of its own, in the form of Prometheus' ``file_sd``
(https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config). A collector scrapes them,
and so does the process that leads the run (:mod:`otel_rl.inference.engine_metrics`). The files lie in the folder that
``OTEL_RL_ENGINE_TARGETS`` names, else beside the files of the run, if it has any.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from otel_rl.core import settings
from otel_rl.process import process_identity
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.store.writer import process_store
from otel_rl.telemetry import deferral, lifecycle

#: Engines that one process tells of, and files that are looked into.
MOST = 64
_MOST_FILES = 256
_FOLDER = "engine-targets"
#: Longest file that is read, in bytes.
_LONGEST = 65_536

#: ``host:port`` of the engines that this process has met, in their order.
_met: dict[str, None] = {}


def note(address: str, port: int | None) -> None:
    """Note that the server at a private address has answered as an engine does; cheap, for the program's thread."""
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    if port is not None and where not in _met and len(_met) < MOST:
        _met[where] = None
        deferral.post(Signal.METRICS, _write)


def known() -> list[str]:
    """Return the engines that any process of this file system has told of; for our threads."""
    found = dict.fromkeys(_met)
    folder = _folder()
    if folder is not None:
        for path in sorted(folder.glob("*.json"))[:_MOST_FILES]:
            found.update(dict.fromkeys(_targets(path)))
    return list(found)[:MOST]


def _targets(path: Path) -> list[str]:
    with suppress(OSError, ValueError, RecursionError, TypeError, AttributeError):
        if path.stat().st_size <= _LONGEST:
            groups = json.loads(path.read_bytes())
            return [str(target) for group in groups for target in group.get("targets", ())]
    return []


def _folder() -> Path | None:
    named = settings.current().engine_targets
    if named is not None:
        return Path(named)
    run = process_store.run_directory()
    return run / _FOLDER if run.is_dir() else None


def _path() -> Path | None:
    folder = _folder()
    who = process_identity.current()
    return None if folder is None else folder / f"{process_store.run_name()}-{who.rank or 0}-{os.getpid()}.json"


def _write() -> None:
    path = _path()
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
    """Tell of nothing any more: the engines may end with the run."""
    path = _path() if _met else None
    if path is not None:
        with suppress(OSError):
            path.unlink(missing_ok=True)
            path.parent.rmdir()


lifecycle.before_shutdown(_remove)
lifecycle.after_fork_in_child(_met.clear)
