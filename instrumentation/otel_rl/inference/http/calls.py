"""One request to an engine, from its headers to the end of its answer.

A client's hooks say what they see of it::

    call = begin(library, method, url, headers, body)   # None for any other traffic
    call.failed(error)                                  # or
    call.leave(); call.answered(response, status, content)   # and later, as far as the program does it:
    read(response, content); parsed(response, value); closed(response, ...); broke_off(response, error)
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from otel_rl.inference import ownership, requests, servers
from otel_rl.inference.calls import InferenceCall, current
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.inference.http import paths, services
from otel_rl.inference.http.base_call import FAILED, HttpCall, Url, default_port
from otel_rl.inference.http.bodies import has_events, is_json, object_of
from otel_rl.inference.http.event_streams import EventStream
from otel_rl.inference.http.followed_chunks import FollowedChunks
from otel_rl.inference.http.other_protocols import PROTOCOLS, OllamaAnswer
from otel_rl.inference.http.paths import target_of
from otel_rl.inference.http.protocols import EngineAnswer, as_completion_request
from otel_rl.inference.http.streamed_answers import StreamedEngineAnswer
from otel_rl.inference.requests import Endpoint, ModelRequest
from otel_rl.semconv.attributes import GenAiOperationNameValues
from otel_rl.semconv.attributes import RlInferenceStreamEndedValues as StreamEnded
from otel_rl.telemetry import lifecycle, propagation
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

    from otel_rl.inference.answers import Answer
    from otel_rl.inference.http.control_calls import ControlCall
    from otel_rl.inference.http.paths import Target

#: Servers that are remembered as engines.
_MOST_ENGINES = 1024
_COMPLETION = GenAiOperationNameValues.TEXT_COMPLETION
_ENDPOINTS = {
    **{endpoint.path: endpoint for endpoint in requests.ENDPOINTS},
    paths.GENERATE: Endpoint(paths.GENERATE, _COMPLETION),
    paths.GENERATE_TOKENS: Endpoint(paths.GENERATE_TOKENS, _COMPLETION),
    **{
        path: Endpoint(path, GenAiOperationNameValues.CHAT)
        for path in (paths.TRL_CHAT, paths.OLLAMA_CHAT, paths.CONVERSE)
    },
    paths.GEMINI: Endpoint(paths.GEMINI, GenAiOperationNameValues.GENERATE_CONTENT),
    paths.OLLAMA_GENERATE: Endpoint(paths.OLLAMA_GENERATE, _COMPLETION),
}
_scope = lru_cache(maxsize=None)(Scope)


class HttpModelCall(HttpCall, FollowedChunks):
    """A request for tokens."""

    def __init__(self, scope: Scope, endpoint: Endpoint, url: Url, body: dict[str, Any], target: Target) -> None:
        if endpoint.path in (paths.GENERATE, paths.GENERATE_TOKENS):
            body = as_completion_request(body)
        #: What the program asked for is not known: its body is long, or a stream itself.
        self._is_unread = not body
        provider = None
        form: Callable[..., Answer]
        protocol = PROTOCOLS.get(endpoint.path)
        if protocol is not None:
            provider = servers.provider_of(url.host, protocol.provider)
            form, self._events_form = protocol.answer, protocol.events
            body = protocol.as_request(body)
            if target.model:
                body |= {"model": target.model, "stream": target.is_stream}
        else:
            samples = body.get("n")
            samples = samples if isinstance(samples, int) and samples > 0 else 1
            form, self._events_form = partial(EngineAnswer, samples), partial(StreamedEngineAnswer, samples)
        server = servers.server(url.host, url.port or default_port(url), provider)
        self.is_stream = bool(body.get("stream"))
        answers = self._events_form if self.is_stream else form
        self._call = InferenceCall(scope, ModelRequest(endpoint, server, body), answers)
        self._call.attempts = 1
        #: What its response is known by; it goes with the response.
        self.references: list[ref[object]] = []
        self._call.enter()

    def leave(self) -> None:
        """Leave the operation: the request has been answered."""
        self._call.leave()

    def was_sent(self, times: int) -> None:
        """Note how often the client has sent the request."""
        self._call.attempts = times

    def failed(self, error: BaseException | None) -> None:
        """No answer came, or one of which nothing is known."""
        self._call.leave()
        self._call.finish(error)

    def answered(self, response: object, status: int, content: bytes | None) -> None:
        """Note that the head of the answer is there, and all of it where ``content`` is."""
        call = self._call
        if status >= FAILED:
            call.answer.failure = str(status)
            call.finish()
            return
        if content is not None:
            call.record_body_read(content)
        elif self._is_unread and has_events(response):
            self.is_stream = True
            call.is_streamed(self._events_form)
        call.watch_for_garbage(response)
        before = call_of(response)
        if before is not None:
            # A transport that answers with one object again and again: it is about this request now.
            before.closed(complete=True)
        _know_by(response, response, self)

    # -- its chunks ------------------------------------------------------------------------------------------------

    def is_followed_by(self, reader: object, response: object) -> bool:
        """Chunks are taken from ``reader``, a part of ``response``; False where the call has ended."""
        if call_of(response) is not self:
            return False
        if reader is not response and _know_by(reader, response, self):
            # The program may keep the reader alone.
            self._call.watch_for_garbage(reader)
        is_ollama = self.is_stream and self._events_form is OllamaAnswer
        self._events = EventStream(self._call.observe_chunk, whole_lines=is_ollama)
        return True

    # -- its answer as a whole -------------------------------------------------------------------------------------

    def read(self, content: bytes | None) -> None:
        """Note that the rest of the answer is there; None where the client does not say what it is."""
        self._call.record_body_read(content)

    def parsed(self, value: Any) -> None:
        """Note that the program has parsed the answer."""
        self._call.record_body_read()
        self._call.body = None
        self._call.answer.observe(value)
        self._call.finish(ended=self._how(StreamEnded.COMPLETED))

    def closed(self, *, complete: bool) -> None:
        """Note that the program is done with the answer."""
        self._call.finish(ended=self._how(StreamEnded.COMPLETED if complete else StreamEnded.CLOSED))

    def _how(self, ended: str) -> str | None:
        return ended if self.is_stream else None


#: Identity of a response, or of what it is read from -> the call, while the program has not read all of it.
#: Responses may be of a class of the program that cannot be hashed.
_open: dict[int, HttpModelCall] = {}
#: The operation whose request this context sends: a client may send it through another one.
_operation: ContextVar[ControlCall | None] = ContextVar("otel_rl_engine_operation", default=None)
#: Host and port of servers that have been asked what only engines are asked.
_engines: set[tuple[str, int | None]] = set()


def begin(library: str, method: str, url: Url, headers: MutableMapping[str, str] | None, body: Any) -> HttpCall | None:
    """Follow a request that is about to be sent, and write its trace context into ``headers``.

    Args:
        library: of the client.
        method: in any case.
        url: where it goes, with all that the client adds to it.
        headers: of the request; a ``traceparent`` in them stays as it is. None where nothing is to be written.
        body: object that the client was given to send as JSON, or the bytes of it.

    Returns:
        None for traffic that is no request to an engine, and for one that a client for models makes.
    """
    target = target_of(method, url.path)
    scope = _scope(library)
    if target is None or _is_part_of_another() or not scope.enabled or ownership.suppressed():
        return None
    if not (target.anywhere or propagation.may_have_baggage(url.host)) or not services.is_of_model(target, *url):
        return None
    known = object_of(body)
    if (target.needs and not _fits(target, known, headers)) or not _is_engine(target, url):
        return None
    record_abandoned()
    call: HttpCall
    if target.operation:
        from otel_rl.inference.http import control_calls  # noqa: PLC0415 - few clients control an engine

        call = control_calls.ControlCall(scope, target, url, known)
        _operation.set(call)
    else:
        endpoint = _ENDPOINTS.get(target.path) or (requests.CHAT if "messages" in known else requests.COMPLETIONS)
        call = HttpModelCall(scope, endpoint, url, known, target)
    call.inject(headers, url.host)
    return call


def _is_part_of_another() -> bool:
    """Return whether a call is being sent: by a client for models, or by a client that uses another one."""
    call, operation = current.get(), _operation.get()
    return (call is not None and call.is_current) or (operation is not None and not operation.has_ended)


def _fits(target: Target, known: dict[str, Any], headers: Mapping[str, str] | None) -> bool:
    """Return whether the body has what it needs; one that is not known can, if it is JSON."""
    return target.needs <= known.keys() if known else is_json(headers)


def _is_engine(target: Target, url: Url) -> bool:
    where = url.host, url.port
    if target.is_common:
        return where in _engines
    if len(_engines) < _MOST_ENGINES:
        _engines.add(where)
    return True


def _know_by(holder: object, response: object, call: HttpModelCall) -> bool:
    """Find ``call`` by ``holder``, which is ``response`` or a part of it, as long as there is one.

    Returns:
        False where that cannot be determined (aiohttp's reader), and ``response`` stands for it.
    """
    key = id(holder)

    # Without the call itself, which would refer to itself then.
    def forget(reference: ref[object]) -> None:
        known = _open.get(key)
        if known is not None and any(known_reference is reference for known_reference in known.references):
            del _open[key]

    try:
        reference, is_own = ref(holder, forget), True
    except TypeError:
        reference, is_own = ref(response, forget), False
    call.references.append(reference)
    _open[key] = call
    return is_own


def _taken(response: object) -> HttpModelCall | None:
    return _open.pop(id(response), None) if _open else None


def call_of(response: object) -> HttpModelCall | None:
    """Return the call that a response, or what it is read from, belongs to until the program is done with it."""
    return _open.get(id(response)) if _open else None


def read(response: object, content: bytes | None) -> None:
    """Note that the body of ``response`` is there."""
    call = call_of(response)
    if call is not None and content is not None:
        call.read(content)


def parsed(response: object, value: Any) -> None:
    """Note that the program has parsed the body of ``response``."""
    call = _taken(response)
    if call is not None:
        call.parsed(value)


def broke_off(response: object, error: BaseException) -> None:
    """Note that the body of ``response`` did not come to its end."""
    call = _taken(response)
    if call is not None:
        call.failed(error)


def closed(response: object, *, complete: bool, content: bytes | None, error: BaseException | None) -> None:
    """Note that the program is done with ``response``, or has read all of it and may parse it yet."""
    call = call_of(response)
    if call is None:
        return
    if complete and not call.is_stream:
        call.read(content)
        return
    if error is not None and not complete:
        broke_off(response, error)
        return
    _taken(response)
    call.closed(complete=complete)


# In a forked child: the parent has the answers.
lifecycle.after_fork_in_child(_open.clear)
