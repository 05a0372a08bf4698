"""What the requests have in common that are followed: to engines for tokens, to control them, to named services."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.telemetry import propagation

if TYPE_CHECKING:
    from collections.abc import MutableMapping

#: Statuses from here on report a failure.
FAILED = 400
_TRACEPARENT = "traceparent"


class Url(NamedTuple):
    """Where a request goes, in the words of whatever client."""

    scheme: str
    host: str
    port: int | None
    path: str


class HttpCall:
    """A request to an engine."""

    #: The answer comes in chunks, which nobody parses as a whole.
    is_stream = False
    #: ``traceparent`` that we have written into the request.
    trace_context: str | None = None

    def inject(self, headers: MutableMapping[str, str] | None, host: str) -> None:
        """Write the trace context into ``headers``, unless one is there; what is raised meanwhile ends the call."""
        try:
            if headers is not None and _TRACEPARENT not in headers:
                propagation.inject(headers, host)
                self.trace_context = headers.get(_TRACEPARENT)
        except BaseException as error:
            # Of a signal handler of the program, too.
            self.failed(error)
            raise

    def leave(self) -> None:
        """Leave the call: the request has been answered, and what runs from here on is no part of it."""

    def failed(self, error: BaseException | None) -> None:
        """No answer came, or one of which nothing is known."""

    def answered(self, response: object, status: int, content: bytes | None) -> None:
        """Note that the head of the answer is there, and all of it where ``content`` is."""

    def was_sent(self, times: int) -> None:
        """Note how often the client has sent the request."""

    def is_followed_by(self, _reader: object, _response: object) -> bool:
        """Chunks of the answer are of interest."""
        return False


def default_port(url: Url) -> int:
    """Return the port of a URL that names none."""
    return 443 if url.scheme == "https" else 80
