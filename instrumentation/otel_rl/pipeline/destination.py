"""Describes an exporter's destination to the user."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Destination:
    """One exporter's address."""

    exporter: str
    #: A URL without credentials, a directory, or the exporter's name.
    words: str
    is_file: bool = False

    def advice(self, *, unopened: bool) -> str:
        """Return the fix to suggest when nothing arrives; ``unopened`` means that the exporter failed to open."""
        if unopened:
            return f"the exporter {self.exporter} could not be opened in this process"
        if self.is_file:
            return "check that the file system answers, or set OTEL_RL_DATA_DIR to another one"
        return "check that a collector answers there, or unset OTEL_EXPORTER_OTLP_ENDPOINT to write files"
