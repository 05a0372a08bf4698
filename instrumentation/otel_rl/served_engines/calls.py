"""One request to an engine, from its headers to the end of its answer.

A client's hooks say what they see of it::

    call = begin(scope, method, url, headers, body)   # None for any other traffic
    call.failed(error)                                # or
    call.answered(response, status, content)          # and later, as far as the program does it:
    parsed(response, value); closed(response)
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from otel_rl.inference import ownership, servers
from otel_rl.inference.calls import InferenceCall, current, record_abandoned
from otel_rl.inference.requests import Request
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import RlInferenceStreamEndedValues, RlPhaseValues
from otel_rl.served_engines.paths import GENERATE, GENERATE_TOKENS, Control, target_of
from otel_rl.served_engines.protocols import EngineAnswer, as_completion_request
from otel_rl.telemetry import deferral, lifecycle, propagation
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.training.phases import Phase, innermost, is_inside

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from otel_rl.inference.requests import Endpoint
    from otel_rl.telemetry.scope import Scope

#: Spans of operations per step: an update may come in hundreds of parts.
SPANS_PER_STEP = 16
#: Longest body that is parsed, in bytes, where the client was given text and not the object.
LONGEST_BODY = 32_768
_FAILED = 400


class Url(NamedTuple):
    """Where a request goes, in the words of whatever client."""

    scheme: str
    host: str
    port: int | None
    path: str


class ModelCall:
    """A request for tokens."""

    def __init__(self, scope: Scope, endpoint: Endpoint, url: Url, body: dict[str, Any]) -> None:
        if endpoint in (GENERATE, GENERATE_TOKENS):
            body = as_completion_request(body)
        samples = body.get("n")
        server = servers.server(url.host, url.port or (443 if url.scheme == "https" else 80))
        #: The answer comes in chunks, which nobody parses as a whole.
        self.is_stream = bool(body.get("stream"))
        answers = partial(EngineAnswer, samples if isinstance(samples, int) and samples > 0 else 1)
        self._call = InferenceCall(scope, Request(endpoint, server, body), answers)
        self._call.attempts = 1
        self._call.enter()

    def failed(self, error: BaseException) -> None:
        """No answer came."""
        self._call.leave()
        self._call.finish(error)

    def answered(self, response: object, status: int, content: bytes | None) -> None:
        """The head of the answer is there, and all of it where ``content`` is."""
        call = self._call
        call.leave()
        if status >= _FAILED:
            call.answer.failure = str(status)
            call.finish()
            return
        if content is not None:
            call.body_was_read(content)
        call.watch_for_garbage(response)
        _open[response] = self

    def read(self, content: bytes | None) -> None:
        """The rest of the answer is there; None where the client does not say what it is."""
        self._call.body_was_read(content)

    def parsed(self, value: Any) -> None:
        """The program has parsed the answer."""
        self._call.body_was_read()
        self._call.body = None
        self._call.answer.observe(value)
        self._call.finish(ended=self._how(RlInferenceStreamEndedValues.COMPLETED))

    def closed(self, *, complete: bool) -> None:
        """The program is done with the answer."""
        values = RlInferenceStreamEndedValues
        self._call.finish(ended=self._how(values.COMPLETED if complete else values.CLOSED))

    def _how(self, ended: str) -> str | None:
        return ended if self.is_stream else None


class ControlCall:
    """A request that changes an engine: a part of the phase ``rl.sync``, or the phase itself.

    One that brings weights is the phase, unless the program is in it already. One on memory or caches is the phase only
    outside of any phase: an engine that wakes up to make samples is a part of making samples.
    """

    def __init__(self, scope: Scope, control: Control, url: Url, body: dict[str, Any]) -> None:
        self._scope, self._name = scope, control.name
        # vLLM and SGLang name it alike in all that take one, but for `update_weight_version`.
        version = body.get("weight_version", body.get("new_version"))
        values: dict[str, Any] = {attributes.RL_SYNC_OPERATION: control.name, attributes.SERVER_ADDRESS: url.host}
        if isinstance(version, str | int):
            values[attributes.RL_POLICY_VERSION] = str(version)
        if url.port is not None:
            values[attributes.SERVER_PORT] = url.port
        is_phase = not is_inside(RlPhaseValues.SYNC) if control.brings else innermost() is None
        self._began = deferral.now()
        self._phase = Phase(spans.RL_SYNC, scope, values, limit=SPANS_PER_STEP, has_duration=is_phase).start()

    def failed(self, error: BaseException) -> None:
        """No answer came."""
        self._end(error, error_type(error))

    def answered(self, _response: object, status: int, _content: bytes | None) -> None:
        """The engine answers when the operation is done."""
        failure = str(status) if status >= _FAILED else None
        self._end(failure, failure)

    def _end(self, error: BaseException | str | None, kind: str | None) -> None:
        seconds = deferral.now().counter - self._began.counter
        self._phase.end(error)
        labels = {attributes.RL_SYNC_OPERATION: self._name}
        if kind is not None:
            labels[attributes.ERROR_TYPE] = kind
        self._scope.record(metrics.RL_SYNC_OPERATION_DURATION, seconds, labels)


#: Answers that the program has not read yet.
_open: WeakKeyDictionary[object, ModelCall] = WeakKeyDictionary()


def may_be_one(method: str, path: str) -> bool:
    """False for traffic that is no request to an engine, and for what a client for models sends: the fast way out."""
    return target_of(method, path) is not None and current.get() is None


def begin(
    scope: Scope, method: str, url: Url, headers: MutableMapping[str, str], body: Any
) -> ModelCall | ControlCall | None:
    """Follow a request that is about to be sent, and write its trace context into ``headers``.

    Args:
        scope: of the client's instrumentor.
        method: in any case.
        url: where it goes, with all that the client adds to it.
        headers: of the request; a ``traceparent`` in them stays as it is.
        body: object that the client was given to send as JSON, or the bytes of it.

    Returns:
        None for traffic that is no request to an engine, and for one that a client for models makes.
    """
    target = target_of(method, url.path)
    if target is None or current.get() is not None or not scope.enabled or ownership.suppressed():
        return None
    if not (target.anywhere or propagation.may_have_baggage(url.host)):
        return None
    record_abandoned()
    known, what = _object_of(body), target.what
    call = ControlCall(scope, what, url, known) if isinstance(what, Control) else ModelCall(scope, what, url, known)
    if "traceparent" not in headers:
        propagation.inject(headers, url.host)
    return call


def _object_of(body: Any) -> dict[str, Any]:
    if isinstance(body, bytes | str) and len(body) <= LONGEST_BODY:
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return {}
    return body if isinstance(body, dict) else {}


def of(response: object) -> ModelCall | None:
    """The call that a response belongs to, until the program has parsed or closed it."""
    return _open.get(response) if _open else None


def read(response: object, content: bytes | None) -> None:
    """The body of ``response`` is there."""
    call = of(response)
    if call is not None and content is not None:
        call.read(content)


def parsed(response: object, value: Any) -> None:
    """The program has parsed the body of ``response``."""
    call = _open.pop(response, None) if _open else None
    if call is not None:
        call.parsed(value)


def closed(response: object, *, complete: bool) -> None:
    """The program is done with ``response``, or has read all of it and may parse it yet."""
    call = of(response)
    if call is None:
        return
    if complete and not call.is_stream:
        call.read(None)
        return
    _open.pop(response, None)
    call.closed(complete=complete)


# The parent's answers are its own; a child must not end their calls.
lifecycle.after_fork_in_child(_open.clear)
