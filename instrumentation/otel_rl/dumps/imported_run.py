"""A run folder made of dumps, with the files and the manifest of a recorded run.

It is made beside its place and renamed once it is whole. A dump has no times of its samples, so the run has none: its
manifest says what it was imported from, and readers go by that.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_rl.core import __version__, settings
from otel_rl.dumps import slime, verl
from otel_rl.dumps.dumped_sample import records
from otel_rl.process.launch import safe
from otel_rl.report.core import reading
from otel_rl.semconv import SCHEMA_URL, attributes
from otel_rl.store.reader.errors import UnusableInput
from otel_rl.store.writer.file_exporter import FileExporter
from otel_rl.store.writer.file_store import FileStore
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_rl.dumps.dumped_sample import DumpedSample

#: Bytes of all files of a run: what is imported is on a disk already, so nothing makes room for it.
_NO_LIMIT = 1 << 62
_SYSTEMS = {".pt": ("slime", slime.read), ".jsonl": ("verl", verl.read)}
#: Below the folder of slime's `--dump-details`, beside what its trainers dump; and as slime names an evaluation.
_ROLLOUTS, _EVALUATION = "rollout_data", "eval_"


def import_dumps(
    paths: Iterable[Path], evaluations: Iterable[Path], output: Path, run: str | None, reward_key: str | None
) -> tuple[Path, list[str]]:
    """Make a run folder below ``output``; return its path, and a line for each file that is not wholly in it.

    Raises:
        UnusableInput: the run exists, there are no dumps, or the folder cannot be written.
    """
    dumps = [(file, file.name.startswith(_EVALUATION)) for path in paths for file in _files(path)]
    dumps += [(file, True) for path in evaluations for file in _files(path)]
    # By step, an evaluation first: lists of runs look at the last rows for the reward.
    dumps.sort(key=lambda dump: (int(re.sub(r"[^0-9]", "", dump[0].stem) or 0), not dump[1], dump[0]))
    suffixes = {path.suffix for path, _ in dumps}
    if len(suffixes) != 1 or not suffixes <= _SYSTEMS.keys():
        raise UnusableInput("name dumps of slime (*.pt) or of verl (*.jsonl), or a folder that has them")
    # The same files have the same name.
    digest = hashlib.sha256("\n".join(str(path.resolve()) for path, _ in dumps).encode("utf-8", "surrogateescape"))
    name = safe(run or f"{_SYSTEMS[min(suffixes)][0]}-{digest.hexdigest()[:8]}")
    folder, notes = output / name, list[str]()
    if folder.exists():
        raise UnusableInput(f"{folder} exists already: read it, or import under another name with --run")
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".otel-rl-import-", dir=output) as unfinished:
            _write(dumps, unfinished, name, reward_key, notes)
            if not Path(unfinished, name).exists():
                raise UnusableInput("; ".join(["nothing was imported", *notes]))
            Path(unfinished, name).rename(folder)
    except OSError as error:
        raise UnusableInput(f"cannot write {folder}: {error.strerror or type(error).__name__}") from error
    return folder, notes


def _files(path: Path) -> Iterable[Path]:
    """Return the file, or those in a folder."""
    folder = path / _ROLLOUTS if (path / _ROLLOUTS).is_dir() else path
    return [file for file in folder.iterdir() if file.suffix in _SYSTEMS] if path.is_dir() else [path]


def _write(dumps: list[tuple[Path, bool]], folder: str, name: str, reward_key: str | None, notes: list[str]) -> None:
    """Write the samples of dumps into the folder of a process of a run below ``folder``."""
    system, read = _SYSTEMS[dumps[0][0].suffix]
    who = {"run_id": name, "service_name": system, "imported_from": f"rollout dumps of {system}"}
    limits = {"file_limit": settings.current().file_max_bytes, "total_limit": _NO_LIMIT}
    store = FileStore(folder, lambda: f"{name}/imported", lambda: who, **limits, warn=_refuse)
    exporter = FileExporter("logs", store)
    named = {attributes.SERVICE_NAME: system, attributes.RL_RUN_ID: name, attributes.RL_SYSTEM_NAME: system}
    resource, scope = Resource(named), InstrumentationScope(f"otel_rl.{system}", __version__, SCHEMA_URL)
    before = sum(drops.snapshot().values())
    with reading.bar("importing", len(dumps), " files") as advance:
        for path, evaluation in dumps:
            found = _noted(read(path, reward_key, evaluation=evaluation), path, notes)
            for _, samples in groupby(found, lambda sample: sample.step):
                made = records(list(samples), system)
                exporter.export([ReadableLogRecord(record, resource, scope) for record in made])
            advance(1)
    store.close()
    if withheld := sum(drops.snapshot().values()) - before:
        notes.append(f"OTEL_RL_REDACT let {withheld} texts not pass")


def _noted(read: Iterator[DumpedSample], path: Path, notes: list[str]) -> Iterator[DumpedSample]:
    """Yield the samples of a file, and note what of it is not imported."""
    count = -1
    try:
        for count, sample in enumerate(read):  # noqa: B007 - asked below
            yield sample
    except UnusableInput:
        raise
    except OSError as error:
        notes.append(f"{path}: cannot be read: {error.strerror or type(error).__name__}")
    except Exception as error:  # noqa: BLE001 - a file may hold anything
        notes.append(f"{path}: {error or type(error).__name__}")
    else:
        notes += [f"{path}: it has no samples"] if count < 0 else []


def _refuse(line: str) -> None:
    raise UnusableInput(line)
