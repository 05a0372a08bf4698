"""The session of an OTLP/HTTP exporter: remembers why a request failed.

An exporter whose timeout is shorter than its first backoff of about 1 s gives up without a word on the cause, and logs
"due to timeout, max retries or shutdown" (``export`` in opentelemetry.exporter.otlp.common.http 0.66b1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import requests

from otel_rl.pipeline import sdk_logging

if TYPE_CHECKING:
    from requests import PreparedRequest, Response


class HttpSession(requests.Session):
    """A session as the exporter makes one for itself."""

    def send(self, request: PreparedRequest, **options: Any) -> Response:
        """Send; what a failure says becomes the reason of the loss.

        Raises:
            requests.RequestException: as ``requests`` raises it.
        """
        try:
            response = super().send(request, **options)
        except requests.RequestException as error:
            sdk_logging.last_error.note(str(error))
            raise
        if not response.ok:
            sdk_logging.last_error.note(f"code: {response.status_code}, reason: {response.reason}")
        return response


def keep_requests() -> None:
    """Let upstream's transport use the ``requests`` that is imported now, whatever has that name later.

    opentelemetry-exporter-http-transport 0.66 imports it in ``RequestsHTTPTransport.__init__``, and once more at the
    first failure.
    """
    from opentelemetry.exporter.http.transport import _requests  # noqa: PLC0415 - a rare case, and not in each version

    _requests._get_connection_error_types()  # noqa: SLF001

    def use_session(
        transport: Any,
        *,
        verify: bool | str = True,
        cert: Any = None,
        session: requests.Session | None = None,
        **_: Any,
    ) -> None:
        transport._session = requests.Session() if session is None else session  # noqa: SLF001
        transport._session.verify = verify  # noqa: SLF001
        if cert is not None:
            transport._session.cert = cert  # noqa: SLF001

    _requests.RequestsHTTPTransport.__init__ = use_session  # type: ignore[assignment, method-assign]
