"""The middleware of WSGI; imports what it needs with the first request that is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.services.telemetry import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_rl.services.served import ServedRequest

_HEADER = "HTTP_"


class WSGIMiddleware:
    """Makes requests part of the rollout that sends them: ``app = WSGIMiddleware(app)``.

    An answer that has a length, and a file, go through as they are: servers look at what they got.
    """

    def __init__(self, app: Any) -> None:
        self.app = app

    def __call__(self, environ: Any, start_response: Any) -> Any:
        """Answer one request."""
        request = _begin(environ)
        if request is None:
            return self.app(environ, start_response)
        request.enter()
        try:
            body = self.app(environ, _noting(request, start_response))
        except BaseException as error:
            request.leave()
            request.end(error)
            raise
        request.leave()
        wrapper = environ.get("wsgi.file_wrapper")
        is_file = isinstance(wrapper, type) and isinstance(body, wrapper)
        if is_file or hasattr(body, "__len__"):
            request.end()
            return body
        return _AnswerInParts(request, body)


class _AnswerInParts:
    """An answer that is made while it is sent, in the context of its request."""

    def __init__(self, request: ServedRequest, body: Any) -> None:
        self._request, self._body = request, body
        self._parts: Iterator[bytes] | None = None

    def __iter__(self) -> _AnswerInParts:
        return self

    def __next__(self) -> bytes:
        request = self._request
        request.enter()
        try:
            if self._parts is None:
                self._parts = iter(self._body)
            part = next(self._parts)
        except StopIteration:
            request.leave()
            request.end()
            raise
        except BaseException as error:
            request.leave()
            request.end(error)
            raise
        request.leave()
        return part

    def close(self) -> None:
        """Close the answer, as servers do at its end."""
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._request.end()


def _begin(environ: Any) -> ServedRequest | None:
    module = served()
    if module is None:
        return None
    headers = (
        (name[len(_HEADER) :], value)
        for name, value in environ.items()
        if name.startswith(_HEADER) and isinstance(value, str)
    )
    path = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"
    request: ServedRequest | None = module.begin(
        environ.get("REQUEST_METHOD", ""), environ.get("wsgi.url_scheme", "http"), path, headers
    )
    return request


def _noting(request: ServedRequest, start_response: Callable[..., Any]) -> Callable[..., Any]:
    def noting(status: Any, *args: Any, **kwargs: Any) -> Any:
        code = str(status)[:3]
        request.answers(int(code) if code.isdecimal() else None)
        return start_response(status, *args, **kwargs)

    return noting
