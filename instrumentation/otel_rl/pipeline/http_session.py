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
