"""The middleware of ASGI; imports what it needs with the first request that is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.services.telemetry import served

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.services.served import ServedRequest


class ASGIMiddleware:
    """Makes requests part of the rollout that sends them: ``app = ASGIMiddleware(app)``, or ``add_middleware``.

    Messages go through as they are. Requests of HTTP have a span; a web socket's and the lifespan's have none.
    """

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        """Answer one request."""
        request = _begin(scope)
        if request is None:
            return await self.app(scope, receive, send)
        request.enter()
        try:
            result = await self.app(scope, receive, _noting(request, send))
        except BaseException as error:
            request.leave()
            request.end(error)
            raise
        request.leave()
        request.end()
        return result


def _begin(scope: Any) -> ServedRequest | None:
    module = served()
    if module is None or scope["type"] != "http":
        return None
    headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope.get("headers", ()))
    request: ServedRequest | None = module.begin(
        scope.get("method", ""), scope.get("scheme", "http"), scope.get("path", ""), headers
    )
    return request


def _noting(request: ServedRequest, send: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def noting(message: Any) -> Any:
        if message.get("type") == "http.response.start":
            request.answers(message.get("status"))
        return await send(message)

    return noting
