"""An OTLP exporter of OpenTelemetry's, with what the destination answered to its latest export.

The exporter itself knows success and failure: a login page, a redirect and rejected items are success for it (HTTP:
``200 <= status < 400`` in ``_OTLPHTTPClient.export``, opentelemetry-exporter-otlp-common 0.66b1; gRPC: the answer of
``Export`` is not read). Its own retries sleep for up to 10 s on a thread that serves other signals too; here each
export is one attempt, and the queue tries again. There is no public seam for either: the names below are those of
opentelemetry-exporter-otlp-proto-http and -grpc 1.44 and 1.45. An exporter that lacks them works as it is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from otel_rl.pipeline import otlp_answer

if TYPE_CHECKING:
    from collections.abc import Callable

#: A channel waits up to 2 minutes between two attempts to connect, and a new one to the same address shares its wait
#: (``grpc.use_local_subchannel_pool``): https://github.com/grpc/grpc/blob/master/doc/connection-backoff.md. An attempt
#: itself takes at most the minimum, 20 s unless set.
_CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 3000),
    ("grpc.use_local_subchannel_pool", 1),
)


class OtlpExporter:
    """Exports ``signal`` through ``exporter``; :attr:`answer` says what became of the latest export."""

    def __init__(self, exporter: Any, signal: str) -> None:
        self._exporter = exporter
        self._signal = signal
        #: None where nothing was sent, or the exporter does not show its answers.
        self.answer: otlp_answer.OtlpAnswer | None = None
        if hasattr(exporter, "_stub") and hasattr(exporter, "_initialize_channel_and_stub"):
            self._watch_grpc()
        elif hasattr(getattr(exporter, "_client", None), "_submit"):
            exporter._client._submit = self._submitting(exporter._client._submit)  # noqa: SLF001 - see above
        elif hasattr(exporter, "_export"):
            exporter._export = self._posting(exporter._export)  # noqa: SLF001 - see above

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exporter, name)

    def export(self, data: Any, **options: Any) -> Any:
        """Export ``data`` in one attempt."""
        self.answer = None
        return self._exporter.export(data, **options)

    def shutdown(self) -> None:
        """Close connections."""
        self._exporter.shutdown()

    def _submitting(self, submit: Callable[..., Any]) -> Callable[..., Any]:
        """Of 1.45: the result holds a response or an exception."""

        def watched(*arguments: Any, **options: Any) -> Any:
            result = submit(*arguments, **options)
            response, error = getattr(result, "response", None), result.error
            if response is not None:
                self.answer = otlp_answer.of_response(response, self._signal)
            elif error is not None:
                self.answer = otlp_answer.of_exception(error)
            if self._is_to_be_repeated():
                return replace(result, status_code=None, error=_one_attempt(self.answer))
            return result

        return watched

    def _posting(self, post: Callable[..., Any]) -> Callable[..., Any]:
        """Of 1.44: a response is returned, an exception raised."""

        def watched(*arguments: Any, **options: Any) -> Any:
            try:
                response = post(*arguments, **options)
            except OSError as error:  # the base of what requests raises
                self.answer = otlp_answer.of_exception(error)
                raise _one_attempt(self.answer) from error
            self.answer = otlp_answer.of_response(response, self._signal)
            if self._is_to_be_repeated():
                raise _one_attempt(self.answer)
            return response

        return watched

    def _is_to_be_repeated(self) -> bool:
        return self.answer is not None and not self.answer.is_final

    def _watch_grpc(self) -> None:
        exporter, watched = self._exporter, self._watched_stub(self._exporter._stub)  # noqa: SLF001 - see above
        exporter._stub = watched  # noqa: SLF001 - see above
        exporter._retryable_error_codes = frozenset()  # noqa: SLF001
        chosen = {name for name, _ in exporter._channel_options}  # noqa: SLF001
        ours = tuple((name, value) for name, value in _CHANNEL_OPTIONS if name not in chosen)
        exporter._channel_options = (*exporter._channel_options, *ours)  # noqa: SLF001
        exporter._channel.close()  # noqa: SLF001
        exporter._initialize_channel_and_stub()  # noqa: SLF001

    def _watched_stub(self, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def stub(channel: Any) -> Any:
            made = make(channel)
            made.Export = self._calling(made.Export)
            return made

        return stub

    def _calling(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            try:
                message = call(*arguments, **options)
            except Exception as error:
                if hasattr(error, "code") and hasattr(error, "details"):
                    self.answer = otlp_answer.of_status(error.code().name, error.details() or "")
                raise
            self.answer = otlp_answer.of_message(message, self._signal)
            return message

        return watched


def _one_attempt(answer: otlp_answer.OtlpAnswer | None) -> Exception:
    """Return an error after which the exporter gives up: it repeats after a ``ConnectionError`` only."""
    error: Exception = _requests().RequestException(answer.reason if answer is not None else "")
    return error


@cache
def _requests() -> Any:
    """Return the module as it was first imported here: the program may have one of that name."""
    import requests  # noqa: PLC0415 - loaded with the exporter

    return requests


def keep_requests() -> None:
    """Let upstream's transport use the ``requests`` that is imported now, whatever has that name later.

    opentelemetry-exporter-http-transport 0.66 imports it in ``RequestsHTTPTransport.__init__``, and once more at the
    first failure.
    """
    requests = _requests()
    from opentelemetry.exporter.http.transport import (  # noqa: PLC0415 - a rare case, and not in each version
        _requests as transports,
    )

    transports._get_connection_error_types()  # noqa: SLF001

    def use_session(
        transport: Any,
        *,
        verify: bool | str = True,
        cert: Any = None,
        session: Any = None,
        **_: Any,
    ) -> None:
        transport._session = requests.Session() if session is None else session  # noqa: SLF001
        transport._session.verify = verify  # noqa: SLF001
        if cert is not None:
            transport._session.cert = cert  # noqa: SLF001

    transports.RequestsHTTPTransport.__init__ = use_session  # type: ignore[assignment, method-assign]
