"""File store: OTLP JSON lines of one process on disk.

=================  ============================================================
``file_exporter``  SDK exporters that write lines
``file_store``     bounded, rotated files of one process
``manifest``       the one schema of ``manifest.json``
``process_store``  the store of this process: its directory and manifest
=================  ============================================================
"""
