"""Upstream's diagnostics must not appear in the program's output: kept for our own one line, not printed.

``OTEL_LOG_LEVEL``, the standard variable for an SDK's own log, leaves them alone.
"""

from __future__ import annotations

import logging
import os
import re

_UPSTREAM = "opentelemetry"
_CAUSE = re.compile(
    "Connection refused|Connection reset|[Tt]imed? ?out|No route to host|Network is unreachable|not known"
    r"|UNAUTHENTICATED|PERMISSION_DENIED|UNIMPLEMENTED|RESOURCE_EXHAUSTED|code: [45]\d\d"
)
_LONGEST = 160
_LOADER = "opentelemetry.instrumentation.auto_instrumentation._load"


class LastError(logging.Handler):
    """Remembers the latest message of an exporter, as the reason to tell when delivery has failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.message = ""

    @property
    def reason(self) -> str:
        """The message's core: what the operating system said, else its beginning."""
        known = _CAUSE.search(self.message)
        return known[0] if known else self.message[:_LONGEST]

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        if record.name.startswith("opentelemetry.exporter"):
            try:
                self.message = record.getMessage()
            except Exception:  # noqa: BLE001 - a malformed log call of somebody else
                self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Stay silent."""


last_error = LastError()


def _is_wanted(record: logging.LogRecord) -> bool:
    # opentelemetry-distro registers a configurator of its own; that it is not used is what was asked for.
    return not str(record.msg).startswith("Configuration of %s not loaded")


def silence() -> None:
    """Keep upstream's log out of the program's handlers."""
    logging.getLogger(_LOADER).addFilter(_is_wanted)
    if os.environ.get("OTEL_LOG_LEVEL", "").strip():
        return
    upstream = logging.getLogger(_UPSTREAM)
    upstream.addHandler(last_error)
    upstream.propagate = False
