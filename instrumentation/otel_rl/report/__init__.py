"""One run as one HTML file: ``otel-rl report``.

    result = write_report(Path("./otel-rl"), None)
    print(result.output)

Packages:
    core: what the subjects share.
    subjects: one folder for each subject: its aggregate, its finding, its section.
    page: the page, as HTML.

Modules:
    run_summary: ``summary.json`` beside the page, for lists of runs.

Needs the extra ``report`` (Bokeh draws, Jinja2 fills the page, tqdm shows progress).
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human, replaced_file
from otel_rl.store.reader import Reader, UnusableInput, find_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from otel_rl.report.core.finding import Overview

FILE_NAME = "report.html"

_SECONDS_BEFORE_PROGRESS = 1.0


@dataclass(slots=True)
class Report:
    """Path of the written page, what deserves a look on it, what its sections are made of, and notes for the user."""

    output: Path
    overview: Overview
    trajectories: dict[str, Any]
    #: What inference engines did in the steps; None where none was asked.
    engines: dict[str, Any] | None
    #: What syncs of weights consist of; empty where none was seen.
    weight_syncs: list[dict[str, Any]]
    #: Versions of the weights by engine; empty where none says them.
    weight_versions: list[dict[str, Any]]
    #: Identity, end, result and settings of the run.
    run: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    #: None where the files do not say.
    run_id: str | None = None


def write_report(path: Path, output: Path | None, run: str | None = None, torch_dumps: Path | None = None) -> Report:
    """Read the run below ``path`` and write its page to ``output`` (default: ``report.html`` in the run's folder).

    ``torch_dumps`` is a folder or a prefix of dumps of PyTorch's flight recorder, where the run itself names none.

    Raises:
        UnusableInput: nothing to read there, or the page cannot be written; the message is for the user.
        ModuleNotFoundError: the extra ``report`` is not installed.
    """
    from otel_rl.report import run_summary, subjects  # noqa: PLC0415 - heavy
    from otel_rl.report.core import engines, sentences  # noqa: PLC0415 - as above
    from otel_rl.report.core.collected import Collected  # noqa: PLC0415 - as above
    from otel_rl.report.page import page, page_head  # noqa: PLC0415 - as above
    from otel_rl.report.subjects import overview  # noqa: PLC0415 - as above
    from otel_rl.report.subjects.health import replay  # noqa: PLC0415 - as above
    from otel_rl.report.subjects.trajectories import totals  # noqa: PLC0415 - as above
    from otel_rl.report.subjects.weight_syncs import syncs as weight_syncs  # noqa: PLC0415 - as above
    from otel_rl.report.subjects.weight_versions import aggregate as weight_versions  # noqa: PLC0415 - as above

    source = find_run(path, run)
    target = _target(output, source.path)
    with _progress(source.size) as advance:
        collected = Collected(Reader(source), subjects.load(), torch_dumps).read(advance)
    examined = overview.examine(collected)
    html = page.render(collected, examined).encode("utf-8", "replace")
    with replaced_file.replacing(target, "choose another place with -o FILE") as stream:
        stream.write(html)
    notes = [note] if (note := run_summary.write(collected, examined)) else []
    if source.others:
        notes.append(
            f"showing run {source.run_id or source.path.name}; choose with --run: {human.listed(source.others)}"
        )
    notes += source.remarks
    if unreadable := sentences.unreadable(collected.reader.problems):
        notes.append(unreadable[0].lower() + unreadable[1:].rstrip("."))
    if complaint := replay.rules(collected)[1]:
        notes.append(complaint.removeprefix("otel-rl: "))
    return Report(
        target,
        examined,
        totals.as_json(collected),
        engines.as_json(collected.steps.engines),
        weight_syncs.as_json(collected.totals),
        weight_versions.as_json(weight_versions.of_run(collected)),
        page_head.as_json(collected),
        notes,
        source.run_id,
    )


def _target(output: Path | None, run: Path) -> Path:
    if output is None:
        return run / FILE_NAME
    target = output / FILE_NAME if output.is_dir() else output
    if not target.parent.is_dir():
        raise UnusableInput(f"cannot write {target}: {target.parent} is no folder; create it first")
    return target


@contextlib.contextmanager
def _progress(size: int) -> Iterator[Callable[[int], object]]:
    from tqdm import tqdm  # noqa: PLC0415

    quiet = not sys.stderr.isatty()
    options: dict[str, Any] = {"unit": "B", "unit_scale": True, "unit_divisor": 1024, "leave": False}
    with tqdm(total=size, desc="reading", delay=_SECONDS_BEFORE_PROGRESS, disable=quiet, **options) as bar:
        yield bar.update
