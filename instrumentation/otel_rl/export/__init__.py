"""One run for other programs: ``otel-rl export``.

    done = export_trace(Path("./otel-rl"), None, RunExcerpt())
    print(done.output)

Every record is read once and spilled to a file beside the output, where it is sorted and joined; the output is written
from there. Memory does not grow with the run.

Modules, each importing only those below it:
    trace_file: a run as one trace for Perfetto.
    torch_traces: traces of PyTorch's profiler beside it.
    json_stream: the objects of an array in a large JSON file.
    slices: spans on lanes, and the arrows between them.
    trace_events: the stream of events.
    lanes: which spans of a track lie on one lane.
    arrows: which spans arrows lead from and to.
    findings: what the report finds.
    tables: a run as CSV.
    conversations: trajectories with what was said in them.
    table_rows: the rows of these.
    csv_cells: a row of CSV that is safe to open in a spreadsheet.
    timeline_rows: rows of spans, values and errors.
    tracks: the track of a span.
    spill: rows on disk.
    excerpt: which steps and ranks.
    output_file: the file that an export writes, and the room for its rows beside it.
    safe_json: JSON that every reader takes.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.export import arrows, conversations, findings, table_rows, tables, torch_traces, trace_file
from otel_rl.export.conversations import Conversations
from otel_rl.export.output_file import replacing, room_beside
from otel_rl.export.spill import Spill
from otel_rl.export.table_rows import TableRows
from otel_rl.export.timeline_rows import SCHEMA, TimelineRows
from otel_rl.report.core import reading
from otel_rl.report.core.collected import Collected
from otel_rl.report.core.messages import VARIABLE
from otel_rl.report.core.reading import notes_of
from otel_rl.report.core.replaced_file import target_of
from otel_rl.store.reader import Reader, UnusableInput, find_run
from otel_rl.store.tables import RunTables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_rl.export.excerpt import RunExcerpt
    from otel_rl.store.reader import Record, RunSource

TRACE_NAME, DATABASE_NAME, TRAJECTORIES_NAME = "perfetto.json.gz", "run.sqlite", "trajectories.jsonl"
_FOLDER_NAME = "csv"


@dataclass(slots=True)
class Export:
    """Path of what was written, and notes for the user."""

    output: Path
    notes: list[str] = field(default_factory=list)


class SpillingReader(Reader):
    """A reader that also gives each record to ``take``: one pass serves the findings and the export."""

    def __init__(self, source: RunSource, take: Callable[[Record], object]) -> None:
        super().__init__(source)
        self._take = take

    def records(self, advance: Callable[[int], object] = lambda _: None) -> Iterator[Record]:
        """Yield all records of the run."""
        for record in super().records(advance):
            self._take(record)
            yield record


def export_trace(
    path: Path,
    output: Path | None,
    excerpt: RunExcerpt,
    run: str | None = None,
    torch: list[Path] | None = None,
    *,
    with_findings: bool = True,
) -> Export:
    """Write the run below ``path`` as a trace (default: ``perfetto.json.gz`` in the run's folder).

    ``torch`` are traces of PyTorch's profiler, beside those in the run's folder.

    Raises:
        UnusableInput: nothing to read there, or the trace cannot be written; the message is for the user.
    """
    source = find_run(path, run)
    target = target_of(output, TRACE_NAME, source)
    profiles, unread = torch_traces.find(source.path, torch or [])
    with room_beside(target), Spill(target.parent, SCHEMA) as spill:
        timeline = TimelineRows(spill, excerpt)
        reader = SpillingReader(source, timeline.add)
        with reading.bar("reading", source.size, "B") as advance:
            found, missing = findings.read(reader, advance, wanted=with_findings)
        spill.flush()
        left = timeline.keep_steps(excerpt.steps) if excerpt.steps is not None else timeline.spans
        arrows.prepare(spill, timeline.left_out)
        with replacing(target) as stream, reading.bar("writing", left, " spans") as advance:
            trace_file.write(stream, timeline, source.run_id, reader.processes, found, profiles, advance)
    notes = [*notes_of(source, reader), *timeline.left_out.notes(), *unread, *([missing] if missing else [])]
    notes += [
        f"{profile.path} is cut off: what is before that is in the trace" for profile in profiles if profile.is_cut
    ]
    return Export(target, notes)


def export_tables(path: Path, output: Path | None, excerpt: RunExcerpt, run: str | None = None) -> Export:
    """Write the run below ``path`` as tables into the folder ``output`` (default: ``csv`` in the run's folder).

    Where ``output`` has the name of one table, that one is written, there.

    Raises:
        UnusableInput: nothing to read there, or a table cannot be written; the message is for the user.
    """
    source = find_run(path, run)
    target, files = _files(output if output is not None else source.path / _FOLDER_NAME)
    with room_beside(target), Spill(target.parent, table_rows.SCHEMA) as spill:
        rows = TableRows(spill, RunTables(target.parent), excerpt)
        reader = SpillingReader(source, rows.add)
        with reading.bar("reading", source.size, "B") as advance:
            for _ in reader.records(advance):
                pass
        rows.close()
        spill.flush()
        tables.check_steps(rows)
        for name, file in files.items():
            file.parent.mkdir(exist_ok=True)
            with replacing(file) as stream, reading.bar(f"writing {name}", rows.spans, " rows") as advance:
                for line in tables.TABLES[name](rows):
                    stream.write(line)
                    advance(1)
    return Export(target, [*notes_of(source, reader), *rows.notes()])


def export_trajectories(path: Path, output: Path | None, excerpt: RunExcerpt, run: str | None = None) -> Export:
    """Write the trajectories of the run below ``path`` with their messages (default: ``trajectories.jsonl`` there).

    Raises:
        UnusableInput: nothing to read there, or it cannot be written; the message is for the user.
    """
    source = find_run(path, run)
    target = target_of(output, TRAJECTORIES_NAME, source)
    reader = Reader(source)
    with room_beside(target), Spill(target.parent, conversations.SCHEMA) as spill:
        found = Conversations(spill, RunTables(target.parent), excerpt)
        with reading.bar("reading", source.size, "B") as advance:
            for record in reader.records(advance):
                found.add(record)
        with replacing(target) as stream:
            stream.writelines(found.lines())
    said_nothing = [] if found.told else [f"no messages are recorded; {VARIABLE} records them, see docs/content.md"]
    return Export(target, [*notes_of(source, reader), *said_nothing])


def export_database(path: Path, output: Path | None, run: str | None = None) -> Export:
    """Write the tables of the run below ``path`` as an SQLite database (default: ``run.sqlite`` in its folder).

    Raises:
        UnusableInput: nothing to read there, or it cannot be written; the message is for the user.
    """
    source = find_run(path, run)
    target = target_of(output, DATABASE_NAME, source)
    reader = Reader(source)
    with room_beside(target), tempfile.TemporaryDirectory(prefix=".otel-rl-", dir=target.parent) as folder:
        with reading.bar("reading", source.size, "B") as advance:
            tables = Collected(reader, ()).load_tables(advance)
        whole = Path(folder, target.name)
        tables.write(whole)
        whole.replace(target)
    return Export(target, notes_of(source, reader))


def _files(output: Path) -> tuple[Path, dict[str, Path]]:
    """Return the path to print, and each table's file."""
    if output.suffix == ".csv" and not output.is_dir():
        if output.name not in tables.TABLES:
            raise UnusableInput(f"{output}: name a folder for all tables, or one of {', '.join(tables.TABLES)}")
        target, files = output, {output.name: output}
    else:
        target, files = output, {name: output / name for name in tables.TABLES}
    if not target.parent.is_dir():
        raise UnusableInput(f"cannot write {target}: {target.parent} is no folder; create it first")
    return target, files
