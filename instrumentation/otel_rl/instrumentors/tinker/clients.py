"""Operations on a model that trains at the service, and the steps of a loop that nobody else reports.

An operation lasts from its submission until its future is done. The service works on those of one model in order, so
one that waits behind another begins when that has ended. In a step that is known it is a part of the step. In a loop of
its own the program reports no step: there one ends when ``optim_step`` is done, and begins where the one before ended.
"""

from __future__ import annotations

import sys
from collections import deque
from concurrent.futures import CancelledError, Future
from contextvars import Context as Variables
from contextvars import ContextVar, copy_context
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from opentelemetry import trace as trace_api
from opentelemetry.trace import NonRecordingSpan

from otel_rl.core import own_cpu
from otel_rl.core.guard import guard
from otel_rl.inference import ownership, servers
from otel_rl.inference.calls import InferenceCall
from otel_rl.inference.requests import COMPLETIONS, ModelRequest
from otel_rl.semconv import metrics, spans
from otel_rl.semconv.attributes import (
    RL_POLICY_VERSION,
    RL_SYNC_OPERATION,
    SERVER_ADDRESS,
    SERVER_PORT,
    RlRoleValues,
)
from otel_rl.telemetry import Scope, deferral, lifecycle, run_span
from otel_rl.telemetry.context import attach, detach, get_current
from otel_rl.training import engine_versions, phases, steps, systems
from otel_rl.training.guessed_loop import GuessedStep
from otel_rl.training.guessed_records import SPANS_PER_STEP, Seen
from otel_rl.training.told_steps import ToldLoop

if TYPE_CHECKING:
    from contextvars import Token
    from types import ModuleType

    from opentelemetry.context import Context

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.training.guessed_records import TimedPart

SYSTEM = "tinker"
scope = Scope(SYSTEM)
#: Method of the client that trains -> what it is. The twins with ``_async`` call these. Whatever the program calls to
#: sample with new weights ends in the last one.
OPERATIONS: dict[str, SpanDefinition] = {
    "forward": spans.RL_FORWARD,
    "forward_backward": spans.RL_BACKWARD,
    "optim_step": spans.RL_OPTIMIZER,
    "save_state": spans.RL_CHECKPOINT,
    "_load_state_impl": spans.RL_LOAD,
    "_save_weights_for_sampler_impl": spans.RL_SYNC,
}
#: Parts of training, whatever phase is around them; others count only outside of all phases.
_TRAINING = (spans.RL_FORWARD, spans.RL_BACKWARD, spans.RL_OPTIMIZER)
#: Most parts of a step that are kept.
MAXIMUM_PARTS = 256
_DONE = guard("tinker.done")
_DEFAULT_PORTS = {"http": 80, "https": 443}
#: Most saved weights that are remembered; of more, the oldest are forgotten.
MAXIMUM_SAVED = 256
#: Model of the client that is being made in this context.
_base_model: ContextVar[str] = ContextVar("otel_rl_tinker_model", default="")
#: Model and version by path, or by the id of a session that samples.
_saved: dict[str, tuple[str, str | None]] = {}
_of_sampler: WeakKeyDictionary[Any, tuple[str, str | None]] = WeakKeyDictionary()
_servers: WeakKeyDictionary[Any, servers.Server] = WeakKeyDictionary()
#: Parameters of a request under the names of OpenAI's protocol, which these have too.
_PARAMETERS = ("max_tokens", "temperature", "top_p", "top_k", "seed", "stop")
_ANSWERED = guard("tinker.answered")


def patch_holder(module: ModuleType, patches: Patches) -> None:
    """Every request passes this method on its way to the background thread, with the context of the caller."""
    name = "InternalClientHolder.run_coroutine_threadsafe"
    patches.observe(module, name, begin=_handed_over, end=_was_handed_over, required=True)


def patch_training_client(module: ModuleType, patches: Patches) -> None:
    """Follow the operations on the model that trains."""
    patches.on_restore(own_steps.stop)
    patches.observe(module, "TrainingClient.__init__", after=_created, required=True)
    for name, definition in OPERATIONS.items():
        begin = partial(Operation.of, name.strip("_").removesuffix("_impl"), definition)
        patches.observe(module, f"TrainingClient.{name}", begin=begin, end=Operation.sent, required=True)


def _handed_over(*_: Any, **__: Any) -> Token[Context] | None:
    if not scope.enabled or trace_api.get_current_span().get_span_context().is_valid:
        return None
    step, of_run = steps.where().step, NonRecordingSpan(run_span.link().context)
    return attach(step.context if step is not None else trace_api.set_span_in_context(of_run, get_current()))


def _was_handed_over(token: Token[Context], *_: Any) -> None:
    detach(token)


class TrainedModel:
    """A model that trains, as its client reports it."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: Updates that have been submitted; what is saved after them has them.
        self.updates = 0
        #: Operations that are not over, in the order of their submission; when the one before them ended.
        self.waiting: deque[Operation] = deque()
        self.ended: Moment | None = None


_models: WeakKeyDictionary[Any, TrainedModel] = WeakKeyDictionary()


def _created(_: Any, client: Any, *__: Any, **___: Any) -> None:
    _models[client] = TrainedModel(_base_model.get())
    version = getattr(sys.modules.get(SYSTEM), "__version__", None)
    systems.configured(type(client), SYSTEM, version, RlRoleValues.TRAINER, is_layer=True)


class Operation:
    """One operation that has been submitted."""

    def __init__(self, name: str, definition: SpanDefinition, model: TrainedModel, client: Any, rate: Any) -> None:
        self._name, self._definition, self._model, self._rate = name, definition, model, rate
        self._holder, self._began, self._context = client.holder, deferral.now(), copy_context()
        #: One inside of a phase of the program has its time in that.
        self._counts = definition in _TRAINING or phases.innermost() is None
        #: When it or a later one was done, and its own future once that is.
        self.ended: Moment | None = None
        self.future: Future[Any] | None = None
        model.updates += definition is spans.RL_OPTIMIZER
        self._version = str(model.updates)

    @staticmethod
    def of(name: str, definition: SpanDefinition, client: Any, *args: Any, **kwargs: Any) -> Operation | None:
        """Begin the operation ``name`` of a client."""
        model = _models.get(client)
        if model is None or not scope.enabled:
            return None
        if definition in _TRAINING:
            own_steps.begins()
        rates = (getattr(value, "learning_rate", None) for value in (*args, *kwargs.values()))
        return Operation(name, definition, model, client, next(filter(None, rates), None))

    def sent(self, future: Any, error: BaseException | None) -> None:
        """Wait until it is done; what was refused is no operation."""
        if error is None:
            self._model.waiting.append(self)
            future_of(future).add_done_callback(partial(_timed_done, self))

    def done(self, future: Future[Any]) -> None:
        """Record it and what waited for it, on the thread that makes the answers: the earlier ones are over as well."""
        with _DONE:
            now, waiting, self.future = deferral.now(), self._model.waiting, future
            for earlier in tuple(waiting):
                earlier.ended = earlier.ended or now
                if earlier is self:
                    break
            while waiting and waiting[0].future is not None:
                waiting.popleft().record()

    def record(self) -> None:
        """Record it once those before it are recorded."""
        # The future has this operation among its callbacks: it must not be kept, nor the context of the caller.
        future, self.future = self.future or Future(), None
        context, self._context = self._context, Variables()
        model, error, now = self._model, error_of(future), self.ended or deferral.now()
        began, model.ended = max(self._began, model.ended or self._began), now
        if steps.may_guess:
            own_steps.add((self._definition, began, now))
        else:
            context.run(self._record, began, now, error)
        if error is None and self._definition is spans.RL_SYNC:
            answer = future.result()
            _saved_as(getattr(answer, "path", answer), model.name, self._version, self._holder)
            scope.record(metrics.RL_SYNC_UPDATES, 1)
        elif error is None and self._definition is spans.RL_OPTIMIZER:
            own_steps.ended(self._rate, now)

    def _record(self, began: Moment, now: Moment, error: BaseException | None) -> None:
        """Record it as a part of the open step, or of the phase around it."""
        is_sync = self._definition is spans.RL_SYNC
        values = {RL_SYNC_OPERATION: self._name, RL_POLICY_VERSION: self._version} if is_sync else None
        phase = phases.Phase(
            self._definition, scope, values, SPANS_PER_STEP, has_duration=self._counts, is_exclusive=False
        )
        phase.start(began).close(error, now)


_timed_done = own_cpu.timed("tinker.done", Operation.done)


def future_of(answer: Any) -> Future[Any]:
    """Return the future behind what a method of a client returns: that of ``concurrent.futures`` itself in 0.25."""
    # Newer ones take callbacks as well, and warn that they will not.
    future: Future[Any] = answer.future() if hasattr(answer, "future") else answer
    return future


def error_of(future: Future[Any]) -> BaseException | None:
    """Return what a future that is done failed with."""
    return CancelledError() if future.cancelled() else future.exception()


class _OwnSteps:
    """Steps of a loop that nobody else reports: what is done up to the end of an update."""

    def __init__(self) -> None:
        self._lock = RLock()
        self.forget()

    def forget(self) -> None:
        """Begin anew, also in a forked child."""
        self._loop = ToldLoop()
        self._parts: list[TimedPart] = []
        #: Where the next step begins; None before the first one.
        self._begins: Moment | None = None
        #: Model calls whose answers are awaited, and since when there are any.
        self._sampling, self._sampling_since = 0, deferral.now()

    def stop(self) -> None:
        """Take back the open step: nobody follows it any more."""
        self._loop.discard()
        self.forget()

    def begins(self) -> None:
        """Open the next step, unless it is open."""
        with self._lock:
            if self._loop.step is None and steps.may_guess and scope.enabled:
                self._loop.begin(max(self._loop.last, 0) + 1, scope, self._begins or deferral.now())

    def add(self, part: TimedPart) -> None:
        """Keep a part of the open step, or of the next one."""
        if len(self._parts) < MAXIMUM_PARTS:
            self._parts.append(part)

    def ended(self, rate: float | None, now: Moment) -> None:
        """End the step with an update."""
        with self._lock:
            if isinstance(step := self._loop.step, GuessedStep):
                step.seen = Seen(self._parts, {}, rate, None)
                self._parts, self._begins = [], now
                self._loop.finish(at=now)

    def sampling(self, change: int) -> None:
        """Note a model call that begins (1) or ends (-1); the time in which any is awaited is one part of the step."""
        self.begins()
        with self._lock:
            if not self._sampling:
                self._sampling_since = deferral.now()
            self._sampling = max(self._sampling + change, 0)
            if not self._sampling and steps.may_guess:
                self.add((spans.RL_SAMPLE, self._sampling_since, deferral.now()))


own_steps = _OwnSteps()
lifecycle.after_fork_in_child(own_steps.forget)


# -- sampling ----------------------------------------------------------------------------------------------------------


def patch_sampling_client(module: ModuleType, patches: Patches) -> None:
    """Follow calls of the model, and which weights answer them."""
    patches.observe(module, "SamplingClient.sample", begin=_begins, end=_sent, required=True)
    patches.observe(module, "SamplingClient._create_impl", after=_sampler_created, required=True)


def _begins(
    client: Any, prompt: Any, num_samples: int, sampling_params: Any, *_: Any, **__: Any
) -> tuple[InferenceCall, int | None] | None:
    """Begin the call, and make it current while its request is handed over."""
    if not scope.enabled or ownership.suppressed():
        return None
    model, version = _weights_of(client)
    given = {name: getattr(sampling_params, name, None) for name in _PARAMETERS}
    body = {name: value for name, value in given.items() if value is not None}
    request = ModelRequest(COMPLETIONS, _server_of(client.holder), {**body, "n": num_samples, "model": model})
    own_steps.sampling(1)
    call = InferenceCall(scope, request)
    call.answer.weight_version = version
    call.enter()
    return call, getattr(prompt, "length", None)


def _sent(state: tuple[InferenceCall, int | None], future: Any, error: BaseException | None) -> None:
    call, prompt_tokens = state
    call.leave()
    if error is None:
        future_of(future).add_done_callback(partial(_timed_answered, call, prompt_tokens))
    else:
        own_steps.sampling(-1)
        call.finish(error)


def _answered(call: InferenceCall, prompt_tokens: int | None, future: Future[Any]) -> None:
    """End the call; on the thread that makes the answer."""
    with _ANSWERED:
        own_steps.sampling(-1)
        error = error_of(future)
        if error is None:
            sequences = future.result().sequences
            choices = [{"index": n, "finish_reason": sequence.stop_reason} for n, sequence in enumerate(sequences)]
            usage = {"prompt_tokens": prompt_tokens, "completion_tokens": sum(map(_length, sequences))}
            call.answer.samples = len(sequences)
            call.answer.observe({"choices": choices, "usage": usage})
        call.finish(error)


_timed_answered = own_cpu.timed("tinker.answered", _answered)


def _length(sequence: Any) -> int:
    """Return the number of tokens; the list of them is made when the program reads it."""
    tokens = getattr(sequence, "tokens_np", None)
    return len(sequence.tokens if tokens is None else tokens)


# -- weights -----------------------------------------------------------------------------------------------------------


def patch_service_client(module: ModuleType, patches: Patches) -> None:
    """Learn which model a client trains: it is made in the background, in the context of these calls."""
    for name in ("_create_lora_training_client_submit", "_create_training_client_via_load_weights_submit"):
        patches.observe(module, f"ServiceClient.{name}", begin=_named, end=_was_named)


def _named(_: Any, *args: Any, **kwargs: Any) -> Token[str] | None:
    # The first argument of one, a keyword of the other.
    model = kwargs.get("base_model", args[0] if args else None)
    return _base_model.set(model) if isinstance(model, str) else None


def _was_named(token: Token[str], *_: Any) -> None:
    _base_model.reset(token)


def _saved_as(place: Any, model: str, version: str, holder: Any) -> None:
    """Remember what was saved under a path, or for a session that samples; it is the newest that there is."""
    if isinstance(place, str):
        while len(_saved) >= MAXIMUM_SAVED:
            _saved.pop(next(iter(_saved)), None)
        _saved[place] = model, version
    labels = _server_of(holder).labels
    engine_versions.given(labels.get(SERVER_ADDRESS, ""), labels.get(SERVER_PORT), version)


def _sampler_created(client: Any, _: Any, **given: Any) -> None:
    """Remember what a new sampling client asks; the version is a path where this process has not saved the weights."""
    path, session = given.get("model_path"), given.get("sampling_session_id")
    _of_sampler[client] = _saved.get(session or path or "") or (given.get("base_model") or "", path)


def _weights_of(client: Any) -> tuple[str, str | None]:
    """Return model and version of the weights that a sampling client asks."""
    return _of_sampler.get(client, ("", None))


def _server_of(holder: Any) -> servers.Server:
    """Return the service, by the address that its clients are made with; the default one has none here."""
    known = _servers.get(holder)
    if known is None:
        address = urlsplit(str(getattr(holder, "_constructor_kwargs", {}).get("base_url") or ""))
        host, port = address.hostname, address.port or _DEFAULT_PORTS.get(address.scheme)
        known = servers.server(host, port, SYSTEM) if host and port else servers.unplaced(SYSTEM)
        _servers[holder] = known
    return known
