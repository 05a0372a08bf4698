"""Records of upstream's loggers: those that our pipeline causes are kept for our one line, the program's are shown.

Ours are what upstream logs on our threads and during the set-up, and what the SDK logs on the program's threads as long
as the program has no provider of its own. ``OTEL_LOG_LEVEL``, the standard variable for an SDK's own
log, leaves everything alone.
"""

from __future__ import annotations

import logging
import os
import re
import threading

from otel_rl.core import settings

_UPSTREAM = "opentelemetry"
_CAUSE = re.compile(
    "Connection refused|Connection reset|[Tt]imed? ?out|No route to host|Network is unreachable|not known"
    r"|UNAUTHENTICATED|PERMISSION_DENIED|UNIMPLEMENTED|RESOURCE_EXHAUSTED|code: [45]\d\d"
)
#: Of an attempt that will be repeated: the answer's reason phrase or the exception.
_TRANSIENT = re.compile("Transient error (.+?) encountered")
#: The last words on an export, whatever the cause was: opentelemetry.exporter.otlp.common.http 0.66b1, and the span
#: exporter of opentelemetry-exporter-otlp-proto-http 1.44.
_GAVE_UP = "due to timeout, max retries or shutdown"
_LONGEST = 160
_LOADER = "opentelemetry.instrumentation.auto_instrumentation._load"
#: Parts that a program without an SDK of its own does not run: without us they would log nothing.
_SDK = ("opentelemetry.sdk.", "opentelemetry.attributes", "opentelemetry.configuration.")
#: Parts that we run on our threads only; a configuration file runs them on threads of upstream's.
_EXPORT = (
    "opentelemetry.exporter.",
    "opentelemetry.sdk._shared_internal",
    "opentelemetry.sdk.trace.export",
    "opentelemetry.sdk._logs._internal.export",
    "opentelemetry.sdk.metrics._internal.export",
)
_OUR_THREAD = "otel-rl"
#: The API's answer to a program that sets a provider where there is one.
_REFUSED = "Overriding of current "


class Upstream(logging.Handler):
    """Stands between upstream's loggers and the program's handlers.

    It has no lock: the program's handlers have theirs, and two locks in two orders could deadlock.
    """

    def __init__(self) -> None:
        super().__init__()
        #: Latest message on the export that each of our threads is at, by the thread's identifier.
        self._messages: dict[int, str] = {}
        self._setting_up: int | None = None
        self._program_has_sdk = False

    def begin_export(self) -> int:
        """Forget what was said on the latest export of this thread; returns the thread's identifier."""
        thread = threading.get_ident()
        self._messages[thread] = ""
        return thread

    def note(self, message: str) -> None:
        """Keep what was said on the export that this thread is at."""
        self._messages[threading.get_ident()] = message

    def reason(self, thread: int) -> str:
        """Return the core of the latest message of ``thread``: what the operating system said, else its beginning."""
        message = self._messages.get(thread, "")
        if known := _CAUSE.search(message):
            return known[0]
        transient = _TRANSIENT.match(message)
        return (transient[1] if transient else message)[:_LONGEST]

    def createLock(self) -> None:  # noqa: N802 - logging's name
        """Do without, as ``logging.NullHandler``."""
        self.lock = None

    def begin_set_up(self) -> None:
        """Keep all that this thread logs from here on: it sets up our pipeline, or does the work of its threads."""
        self._setting_up = threading.get_ident()

    def end_set_up(self) -> None:
        """End that: later records of this thread may be the program's."""
        self._setting_up = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Show the record as without us, or keep its message."""
        if str(record.msg).startswith(_REFUSED):
            self._program_has_sdk |= self._setting_up is None
        if self._is_ours(record):
            self._keep(record)
            return False
        logger = logging.getLogger(_UPSTREAM)
        if not logger.propagate and logger.parent is not None:
            logger.parent.callHandlers(record)
        return True

    def _is_ours(self, record: logging.LogRecord) -> bool:
        if settings.current().console and record.name.startswith(_EXPORT):
            # Whoever exports: it would stand between the lines of the steps.
            return True
        if record.thread == self._setting_up or (record.threadName or "").startswith(_OUR_THREAD):
            return True
        if self._program_has_sdk:
            return False
        if record.name.startswith(_EXPORT):
            return bool(os.environ.get("OTEL_CONFIG_FILE"))
        return record.name.startswith(_SDK)

    def _keep(self, record: logging.LogRecord) -> None:
        if record.name.startswith("opentelemetry.exporter") and record.levelno >= logging.WARNING:
            try:
                message = record.getMessage()
            except Exception:  # noqa: BLE001 - a malformed log call of somebody else
                message = str(record.msg)
            # Other threads export nothing of ours.
            if _GAVE_UP not in message and threading.get_ident() in self._messages:
                self.note(message)


last_error = Upstream()


def _is_wanted(record: logging.LogRecord) -> bool:
    # opentelemetry-distro registers a configurator of its own; that it is not used is what was asked for.
    return not str(record.msg).startswith("Configuration of %s not loaded")


def silence() -> None:
    """Keep what our pipeline logs out of the program's handlers; the set-up begins."""
    logging.getLogger(_LOADER).addFilter(_is_wanted)
    if os.environ.get("OTEL_LOG_LEVEL", "").strip() and not settings.current().console:
        return
    upstream = logging.getLogger(_UPSTREAM)
    upstream.addHandler(last_error)
    upstream.propagate = False
    last_error.begin_set_up()
