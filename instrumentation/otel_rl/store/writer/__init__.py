"""File store: OTLP JSON lines of one process on disk.

=================  ============================================================
``file_exporter``  SDK exporters that write lines
``file_store``     directory of one process, and the share of each stream
``manifest``       the one schema of ``manifest.json``
``otlp_json``      spans and log records as OTLP JSON text
``process_store``  the store of this process: its directory and manifest
``rotating_file``  files of one stream, the oldest removed when it is full
=================  ============================================================
"""
