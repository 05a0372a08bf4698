"""Where an exporter delivers, in words for a person."""

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
        """What the user can do where nothing arrives; ``unopened``: there has been no exporter at all."""
        if unopened:
            return f"the exporter {self.exporter} could not be opened in this process"
        if self.is_file:
            return "check that the file system answers, or set OTEL_RL_DATA_DIR to another one"
        return "check that a collector answers there, or unset OTEL_EXPORTER_OTLP_ENDPOINT to write files"
