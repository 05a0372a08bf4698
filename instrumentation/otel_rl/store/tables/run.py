"""The tables of a run: rows are added in batches, and asked with SQL."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import tempfile
import weakref
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from otel_rl.semconv import attributes as names
from otel_rl.store.reader.errors import NoRoom, UnusableInput
from otel_rl.store.reader.otlp_values import int_or_none
from otel_rl.store.reader.records import Log
from otel_rl.store.tables import changes, free_queries, quoting, rollups, schema
from otel_rl.store.tables.load import Loader
from otel_rl.store.tables.samples import of_cells, with_scores
from otel_rl.store.tables.scalars import LoggedKeys
from otel_rl.store.tables.steps import PlacedSteps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from otel_rl.store.reader.processes import Process
    from otel_rl.store.reader.records import Record
    from otel_rl.store.tables.free_queries import Column
    from otel_rl.store.tables.samples import Row

#: Window functions came with 3.25, and their frames are right since 3.26.
OLDEST = (3, 26, 0)
#: Records whose rows are inserted together.
_TOGETHER = 2000
#: Samples whose scores are asked for together.
_SAMPLES_TOGETHER = 500
#: Texts of the errors of SQLite for a disk that is full or has a limit.
_SIGNS_OF_NO_ROOM = ("disk is full", "disk I/O error")
#: KiB of the database that are kept in memory.
_CACHE_KIB = 16 * 1024
_SETTINGS = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA temp_store = FILE",
    f"PRAGMA cache_size = -{_CACHE_KIB}",
)
BUCKETS_PER_DOUBLING = 8
NEGATIVE = 1_000_000
_INSERTED = {
    table: f"INSERT INTO {table} VALUES ({', '.join('?' * len(schema.columns(text)))})"
    for table, text in schema.TABLES.items()
}
#: A copy of rows of an open step counts where the process was killed before the step's own record. What was said of
#: it is of the row of that record.
_COPIES = """SELECT sample FROM sample c WHERE is_pending AND EXISTS
    (SELECT 1 FROM sample s WHERE NOT s.is_pending AND s.process = c.process AND s.source = c.source
     AND s.loop = c.loop AND s.ended_in IS c.ended_in AND s.step IS c.step)"""
_WITHOUT_COPIES = (
    """CREATE INDEX IF NOT EXISTS samples_of_steps ON sample (process, source, loop, step, ended_in)
       WHERE NOT is_pending""",
    "CREATE INDEX IF NOT EXISTS changes_by_sample ON change (sample)",
    f"UPDATE change SET sample = NULL, is_joined = 0 WHERE sample IN ({_COPIES})",
    *(f"DELETE FROM {table} WHERE sample IN ({_COPIES})" for table in ("score", "sample")),
)
_EVENTS = """
SELECT process, scope, name, time, severity, severity_text, body, attributes, trace, span FROM event
WHERE name IN ({names}) ORDER BY time, rowid"""


class RunTables:
    """The tables of one run, in a file below ``folder`` that is gone with this process; None: in memory.

    One thread at a time adds or asks.

    Raises:
        UnusableInput: the SQLite of this Python is too old.
        NoRoom: also while rows are added or asked for: the disk is full.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            needed = ".".join(map(str, OLDEST))
            raise UnusableInput(f"this Python has SQLite {sqlite3.sqlite_version}; reading a run needs {needed}")
        self._folder = folder
        self._database = _opened(folder)
        # Not at exit: a thread may still ask, and closing what another thread asks is a crash.
        weakref.finalize(self, self._database.close).atexit = False
        self._is_stopped = False
        for statement in (*_SETTINGS, *schema.statements(), *rollups.CREATE, "BEGIN"):
            self._database.execute(statement)
        self._load = Loader(tuple(schema.TABLES))
        self._made = LoggedKeys(is_made=True)
        self._steps = PlacedSteps()
        self._superseded: Collection[tuple[int, ...]] = ()
        #: Identity of each process in the tables, and whether one changed in the last :meth:`settle`.
        self._identities: dict[int, tuple[Any, ...]] = {}
        self._has_moved = False
        #: What the values made of samples depend on, as of the last :meth:`settle`.
        self._sampled: tuple[Any, ...] = ()
        #: False if none of that changed in the last :meth:`settle`.
        self.has_new_samples = False
        #: Records whose rows wait.
        self._added = 0
        #: The last row of ``call`` that the sums by step have.
        self._summed = 0

    # -- what comes in ---------------------------------------------------------------------------------------------

    def add(self, record: Record) -> None:
        """Take in a record; queries see it after :meth:`settle`."""
        self._load.add(record)
        self._added += 1
        if self._added >= _TOGETHER:
            with self._room():
                self._insert_all()

    def settle(self) -> None:
        """Let queries see all that was added."""
        with self._room():
            self._insert_all()
            self._settle()

    def _settle(self) -> None:
        self._describe()
        self._compare()
        if self.value("SELECT 1 FROM sample WHERE is_pending LIMIT 1") is not None:
            for statement in _WITHOUT_COPIES:
                self._database.execute(statement)
        changes.join(self._database)
        self._steps.place(self._database)
        self.has_new_samples |= self._steps.has_placed_samples
        if self._has_moved:
            rollups.clear(self._database)
            self._summed = 0
        for statement in rollups.OF_NEW if self._summed else rollups.OF_ALL:
            self._database.execute(statement, {"summed": self._summed})
        self._summed = self.value("SELECT max(rowid) FROM call") or 0

    def _compare(self) -> None:
        """Detect processes whose identity has changed, and new samples, since the last :meth:`settle`."""
        identities = {
            number: (one.rank, one.attempt, one.identity(names.PROCESS_PID), one.identity(names.HOST_NAME))
            for one, number in self._load.processes.items()
        }
        self._has_moved = any(identities[number] != before for number, before in self._identities.items())
        self._identities = identities
        sampled = self._load.samples, self._load.changes, len(self._load.logged), identities
        self.has_new_samples, self._sampled = sampled != self._sampled, sampled

    @property
    def changed_steps(self) -> dict[tuple[str, str, int], tuple[int, int | None]] | None:
        """Range of steps that the last :meth:`settle` changed, by attempt, loop and restarts; None means all steps."""
        return None if self._has_moved else self._steps.changed

    def put_scalars(self, calls: Iterable[tuple[int, str, int, int, dict[str, float]]]) -> None:
        """Put values that are made of others in the place of those of the last time.

        Args:
            calls: number of the process, name of the loop, step, time and values.
        """
        self._made = LoggedKeys(is_made=True)
        self._database.execute("DELETE FROM scalar WHERE logged_key < 0")
        for process, loop, step, time, values in calls:
            self._load.rows["scalar"] += self._made.add(process, loop, step, None, time, values)
        with self._room():
            self._insert_all()
            self._describe()

    def supersede(self, attempts: Collection[tuple[int, ...]]) -> None:
        """Leave the processes of these attempts, which a later one follows, out of the views."""
        if set(attempts) != set(self._superseded):
            self._superseded = attempts
            self._describe()

    @contextmanager
    def _room(self) -> Iterator[None]:
        """Turn SQLite's errors about a full disk into :class:`NoRoom`; the tables may be half-written then."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if not any(sign in str(error) for sign in _SIGNS_OF_NO_ROOM):
                raise
            raise NoRoom(
                f"the tables of the run cannot be kept in {self._folder} ({error}); make room there, or name another"
                " folder with TMPDIR"
            ) from error

    def _insert_all(self) -> None:
        for table, rows in self._load.rows.items():
            if rows:
                self._insert(table, rows)
        self._added = 0

    def _insert(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        before = self._database.total_changes
        try:
            self._database.executemany(_INSERTED[table], rows)
        except quoting.ERRORS:
            done = self._database.total_changes - before
            self._database.executemany(_INSERTED[table], map(quoting.bindable, rows[done:]))
        rows.clear()

    def _describe(self) -> None:
        """Write what is known of processes and callees by now."""
        self._database.execute("DELETE FROM process")
        starts = sorted({one.attempt for one in self._load.processes})
        rows = (
            (number, one.key, one.label, one.rank, one.identity(names.RL_ROLE),
             int_or_none(one.identity(names.PROCESS_PID)), one.identity(names.HOST_NAME),
             ".".join(map(str, one.attempt)), starts.index(one.attempt), int(one.attempt in self._superseded))
            for one, number in self._load.processes.items()
        )  # fmt: skip
        self._database.executemany(_INSERTED["process"], map(quoting.bindable, rows))
        self._database.execute("DELETE FROM callee")
        callees = ((number, *called) for called, number in self._load.callees.items())
        self._database.executemany(_INSERTED["callee"], map(quoting.bindable, callees))
        self._database.execute("DELETE FROM logged_key")
        keys = chain(self._load.logged.rows(), self._made.rows())
        self._database.executemany(_INSERTED["logged_key"], map(quoting.bindable, keys))

    # -- what comes out --------------------------------------------------------------------------------------------

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """Return the rows of a query, whose columns are found by name and by place."""
        with self._room():
            return self.stream(query, *values).fetchall()

    def stream(self, query: str, *values: Any) -> sqlite3.Cursor:
        """Return the rows of a query, one at a time."""
        if self._is_stopped:
            raise sqlite3.OperationalError("interrupted")
        return self._database.execute(query, values)

    def value(self, query: str, *values: Any) -> Any:
        """Return the first column of the first row; None without a row."""
        with self._room():
            row = self.stream(query, *values).fetchone()
        return None if row is None else row[0]

    def events(self, *events: str) -> Iterator[Log]:
        """Yield the log records with these event names, the earliest first."""
        processes = {number: process for process, number in self._load.processes.items()}
        for row in self.stream(_EVENTS.format(names=", ".join("?" * len(events))), *events):
            yield Log(
                process=processes[row["process"]],
                scope=row["scope"],
                event=row["name"],
                time=row["time"],
                severity=row["severity"],
                severity_text=row["severity_text"],
                body=json.loads(row["body"]),
                attributes=json.loads(row["attributes"]),
                trace_id=row["trace"],
                span_id=row["span"],
            )

    def samples(self, query: str, *values: Any) -> Iterator[Row]:
        """Yield samples with their scores; the query selects ``sample.*`` and ``rank``."""
        cursor = self.stream(query, *values)
        while records := cursor.fetchmany(_SAMPLES_TOGETHER):
            wanted = ", ".join(str(record["sample"]) for record in records)
            scores = self.stream(f"SELECT * FROM score WHERE sample IN ({wanted}) ORDER BY rowid")
            yield from with_scores(map(of_cells, records), scores)

    def index_scores(self) -> None:
        """Make :meth:`samples` quick for many of them."""
        self._database.execute("CREATE INDEX IF NOT EXISTS scores_by_sample ON score (sample)")

    def process(self, number: int) -> Process:
        """Return the process with a number of the tables."""
        return next(process for process, known in self._load.processes.items() if known == number)

    def stop(self) -> None:
        """Interrupt the running query and make later ones fail; another thread may call it."""
        self._is_stopped = True
        self._database.interrupt()

    # -- for users -------------------------------------------------------------------------------------------------

    def described(self) -> dict[str, list[Column]]:
        """Return the columns of each table that has rows."""
        return free_queries.tables(self._database)

    def views(self) -> set[str]:
        """Return the names of the views."""
        return free_queries.views(self._database)

    def restrict(self, seconds: float) -> free_queries.Restricted:
        """Allow only reads from now on, with one time budget in seconds for all queries."""
        return free_queries.Restricted(self._database, seconds)

    def write(self, path: Path) -> None:
        """Write all tables and views into a new database.

        Raises:
            sqlite3.Error: it cannot be written.
        """
        target = sqlite3.connect(path)
        try:
            self._database.execute("COMMIT")
            self._database.backup(target)
            self._database.execute("BEGIN")
        finally:
            target.close()

    @property
    def cut_off(self) -> dict[Process, int]:
        """Attributes, events and links that were cut off from spans, by process."""
        return self._load.cut_off


def bucket(value: float | None) -> int | None:
    """Return the number of the bucket that holds a value, eight for each doubling; None for zero and for no value.

    Those of negative values begin at :data:`NEGATIVE`, and are counted from zero away.
    """
    if not value:
        return None
    number = math.floor(math.log2(abs(value)) * BUCKETS_PER_DOUBLING)
    return number if value > 0 else NEGATIVE + number


def _opened(folder: Path | None) -> sqlite3.Connection:
    if folder is None:
        return _connected(":memory:")
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".otel-rl-tables.")
    try:
        os.close(descriptor)
        # Nobody else has the file, and some file systems of clusters have no locks.
        return _connected(f"file:{quote(name)}?nolock=1")
    finally:
        os.unlink(name)  # noqa: PTH108 - the open database keeps the file


def _connected(name: str) -> sqlite3.Connection:
    # Threads take turns.
    database = sqlite3.connect(name, isolation_level=None, check_same_thread=False, uri=True)
    database.row_factory = sqlite3.Row
    database.create_function("bucket", 1, bucket, deterministic=True)
    return database
