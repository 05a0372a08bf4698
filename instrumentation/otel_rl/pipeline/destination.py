"""Describes an exporter's destination to the user."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Reason of a loss where the callbacks of the program's observable instruments have not returned.
NOT_COLLECTED = "the values were not collected in time"
#: What a reason of a failed export contains -> the answer that it stands for, and the fix. The first that fits counts.
_ANSWERS = (
    (
        ("HTML page",),
        "it is no OTLP receiver, or wants a login first; correct the endpoint, `otel-rl doctor` checks it",
    ),
    (
        ("HTTP/2", "http1.x"),
        "it speaks HTTP and not gRPC; set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or send to its gRPC port",
    ),
    (
        ("with a redirect",),
        "no exporter follows it; set the endpoint to the address it leads to",
    ),
    (
        ("it rejected",),
        "look at its log and its limits",
    ),
    (
        ("code: 401", "UNAUTHENTICATED"),
        "it answers that the credentials are missing or wrong; correct OTEL_EXPORTER_OTLP_HEADERS",
    ),
    (
        ("code: 403", "PERMISSION_DENIED"),
        "it answers that these credentials may not write there; use others in OTEL_EXPORTER_OTLP_HEADERS",
    ),
    (
        ("code: 404", "code: 405", "UNIMPLEMENTED"),
        "it answers that it takes no OTLP there; correct path and port of the endpoint, `otel-rl doctor` checks them",
    ),
    (
        (
            "code: 429",
            "code: 5",
            "RESOURCE_EXHAUSTED",
            "Too Many Requests",
            "Service Unavailable",
            "Bad Gateway",
            "Gateway Time",
        ),
        "it answers that it is overloaded or not ready; look at its log",
    ),
    (
        ("code: 4", "INVALID_ARGUMENT", "FAILED_PRECONDITION"),
        "it answers with an error; look at its log, or let `otel-rl doctor` ask it",
    ),
)

_TLS = "set OTEL_EXPORTER_OTLP_CERTIFICATE to the file of the authority that signed the server's certificate"


@dataclass(frozen=True)
class Destination:
    """One exporter's address."""

    exporter: str
    #: A URL without credentials, a directory, or the exporter's name.
    words: str
    is_file: bool = False

    @property
    def takes_otlp(self) -> bool:
        """True where ``otel-rl replay`` can send again what did not arrive."""
        return self.exporter.startswith("otlp") and not self.is_file

    def advice(self, reason: str, *, unopened: bool) -> str:
        """Return the fix to suggest when nothing arrives.

        ``reason`` is what the latest export failed with; ``unopened`` means that the exporter failed to open.
        """
        if unopened:
            return f"the exporter {self.exporter} could not be opened in this process"
        if reason == NOT_COLLECTED:
            return "look for a callback of an observable instrument that waits, and give it a timeout"
        if self.is_file:
            return "check that the file system answers, or set OTEL_RL_DATA_DIR to another one"
        if self.exporter == "console":
            return "check that the standard output of the program can be written"
        if re.search("CERTIFICATE|certificate|SSL|handshake", reason):
            return _TLS
        return (
            answer(reason)
            or "check that a collector answers there, or unset OTEL_EXPORTER_OTLP_ENDPOINT to write files"
        )


def answer(reason: str) -> str:
    """Return what the destination answered and the fix; empty where it did not answer."""
    return next((said for words, said in _ANSWERS if any(word in reason for word in words)), "")
