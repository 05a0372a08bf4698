"""The keys under which we write to a run that the program logs to as well."""

from __future__ import annotations

#: Beginning of each.
PREFIX = "otel_rl/"
