"""One line per step on standard error (``OTEL_RL_CONSOLE``), in the leading process.

Modules:
    categories: what a line says of the values that were logged.
    line: the line, as wide as the terminal.
    steps: collects steps and values where they are recorded, and writes a line a second at most.
"""
