"""One run as tables: what its readers ask with SQL.

    tables = RunTables()
    for record in reader.records():
        tables.add(record)
    tables.settle()
    tables.rows("SELECT name, count(*) FROM calls GROUP BY name")

The files of the run stay the truth: tables are made of them and are gone with the process.

Modules, each importing only those below it:
    run: the tables of a run: adds, asks.
    steps: where the time of the steps goes.
    changes: joins what was said of samples later to their rows.
    load: the rows of a record; the only module that knows wire names.
    scalars: keys that processes log, and their values.
    rollups: sums by step, which grow with the tables.
    schema: the tables and their columns.
    samples: the rows of trajectories.
    engine_stages: where the stages of a request lie in its call.
    joined_versions: versions of the weights of one sample, by several processes.
    free_queries: queries of users, which only read.
    quoting: values that SQLite has no form for.
    place: the folder in which the tables lie.
    operations: which operations are model calls, and how one failed.
"""

from __future__ import annotations

from otel_rl.store.tables.run import RunTables

__all__ = ["RunTables"]
