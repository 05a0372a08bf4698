"""One folder per instrumented library: ``__init__`` (instrumentor), ``package`` (versions), ``patch`` (wrappers)."""
