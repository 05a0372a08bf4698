"""Leaves that every room may use; nothing here knows of telemetry, trainers or libraries.

Modules:
    settings: the ``OTEL_RL_*`` variables: one table of names, ranges and defaults.
    guard: the one guard between our code and the host program, and what it cannot take away from us.
    instrumentor_status: what each instrumentor and part says of itself.
    import_hooks: calls after a module of a library was imported.
    threads: threads that do something at intervals, and what they need.
    own_cpu: CPU time that otel-rl itself costs.
    logged_keys: which way a logged value is better.
    code_places: in which function code is, and whose file that is.
    addresses: addresses as they may be shown, without what is secret in them.
    proc_files: files of ``/proc``, read at each step.
    clock: the clocks, by name before the program can patch them.
    stderr: lines on stderr.
    packaged_data: files that come with the package.
"""

#: Version of the distribution; one place for pyproject, scopes and the command line.
__version__ = "0.1.0"
