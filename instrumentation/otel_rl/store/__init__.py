"""The file store: OTLP JSON lines on disk, written where no collector is configured, read by ``otel-rl report``.

``<data directory>/<run id>/<host>-<rankN|pidN>-<id>/{traces,metrics,logs}-NNNN.jsonl`` with a ``manifest.json`` each;
every line is one OTLP ``Export*ServiceRequest``, the format that the collector's ``otlpjsonfile`` receiver reads. A
file that is full is compressed, ``NAME.jsonl.gz``.

Packages:
    writer: one process's files.
    reader: all files of a run.
    tables: one run as tables, which its readers ask with SQL.
"""
