"""Configurations of the collector otelcol-rl: composed from parts, checked, and started.

Modules:
    parts: the shipped and generated parts of a configuration, and how they merge.
    checks: the problems of a merged configuration, each with its fix.
    composed: one checked configuration file from a selection of parts.
    run: the start of otelcol-rl with a composed configuration.
    data_folder: the folder that one start of role local writes into.
    binary: the program otelcol-rl: finding it, building it, its own validation.
    errors: the exception for a configuration that is refused.

The command line ``otel-rl collector`` is :mod:`otel_rl.cli.collector`; nothing here imports it.
"""
