"""Posts what stands on standard input: the address on its first line, JSON behind it.

    python -m otel_rl.live.posting < notification

A program of its own, so that nothing that follows a run waits for a server elsewhere; the address stands nowhere else,
as it is often a secret. Proxies of the environment are used, redirects are not followed. The status is 0 where the
server has taken it; else the reason is printed, without the address.
"""

from __future__ import annotations

import sys
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

if TYPE_CHECKING:
    from typing import BinaryIO

#: Seconds that one try may take.
DEADLINE = 10.0
_LONGEST = 200


class _NoRedirects(HTTPRedirectHandler):
    """What is sent elsewhere was not taken: the address is wrong, or a login page is in front of it."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing."""


def post(content: BinaryIO) -> str:
    """Post it; return why that failed, or nothing."""
    address, body = content.readline().decode().strip(), content.read()
    headers = {"Content-Type": "application/json", "User-Agent": "otel-rl"}
    try:
        request = Request(address, data=body, headers=headers, method="POST")  # noqa: S310 - http(s), as was checked
        with build_opener(_NoRedirects).open(request, timeout=DEADLINE):
            return ""
    except HTTPError as error:
        return f"the server answered {error.code} {error.reason}"[:_LONGEST]
    except URLError as error:
        reason = error.reason
        return str(getattr(reason, "strerror", None) or type(reason).__name__)[:_LONGEST]
    except (OSError, HTTPException, ValueError) as error:
        return type(error).__name__


if __name__ == "__main__":
    sys.exit(post(sys.stdin.buffer) or 0)
