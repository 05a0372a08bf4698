"""One run as one HTML file: ``otel-rl report``.

    result = write_report(Path("./otel-rl"), None)
    print(result.output)

Packages:
    core: what the subjects share.
    subjects: one folder for each subject: its aggregate, its finding, its section.
    page: the page, as HTML.

Modules:
    proof: the records that prove a finding: ``otel-rl explain``.
    run_summary: ``summary.json`` beside the page, for lists of runs.

Needs the extra ``report`` (Bokeh draws, Jinja2 fills the page, tqdm shows progress).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import reading, replaced_file
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.report.core.finding import Overview

FILE_NAME = "report.html"


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
    from otel_rl.report.core.collected import Collected  # noqa: PLC0415 - as above
    from otel_rl.report.page import page, page_head  # noqa: PLC0415 - as above
    from otel_rl.report.subjects import overview  # noqa: PLC0415 - as above
    from otel_rl.report.subjects.engines import request_times  # noqa: PLC0415 - as above
    from otel_rl.report.subjects.health import replay  # noqa: PLC0415 - as above
    from otel_rl.report.subjects.trajectories import totals  # noqa: PLC0415 - as above
    from otel_rl.report.subjects.weight_syncs import syncs as weight_syncs  # noqa: PLC0415 - as above
    from otel_rl.report.subjects.weight_versions import aggregate as weight_versions  # noqa: PLC0415 - as above

    source = find_run(path, run)
    target = replaced_file.target_of(output, FILE_NAME, source)
    with reading.bar("reading", source.size, "B") as advance:
        collected = Collected(Reader(source), subjects.load(), torch_dumps).read(advance)
    examined = overview.examine(collected)
    html = page.render(collected, examined).encode("utf-8", "replace")
    with replaced_file.replacing(target, "choose another place with -o FILE") as stream:
        stream.write(html)
    notes = [note] if (note := run_summary.write(collected, examined)) else []
    notes += reading.notes_of(source, collected.reader)
    if complaint := replay.rules(collected)[1]:
        notes.append(complaint.removeprefix("otel-rl: "))
    return Report(
        target,
        examined,
        totals.as_json(collected),
        request_times.as_json(collected),
        weight_syncs.as_json(collected.totals),
        weight_versions.as_json(weight_versions.of_run(collected)),
        page_head.as_json(collected),
        notes,
        source.run_id,
    )
