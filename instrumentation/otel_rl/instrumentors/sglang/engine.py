"""``sglang.Engine`` in the process of the program: one span per call of ``generate``, and its operations on weights.

``generate`` and ``async_generate`` are both a pass of ``TokenizerManager.generate_request``, as are the requests of
SGLang's server, which its clients record.
"""

from __future__ import annotations

from asyncio import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from otel_rl.inference import ownership
from otel_rl.inference.engine_answers import requests_of
from otel_rl.inference.engine_calls import EngineCall
from otel_rl.inference.engine_requests import ABORT
from otel_rl.inference.http.protocols import EngineAnswer, as_completion_request
from otel_rl.inference.requests import add_generation_parameters
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import GenAiOperationNameValues
from otel_rl.semconv.attributes import RlInferenceStreamEndedValues as Ended
from otel_rl.semconv.attributes import RlRunPartValues as Part
from otel_rl.telemetry import Scope, run_parts
from otel_rl.training import engine_summary
from otel_rl.training.sync_operations import SyncOperation, is_phase

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

scope = Scope("sglang")
#: Methods of ``Engine``, and whether they bring weights.
_OPERATIONS = {
    "update_weights_from_disk": True,
    "update_weights_from_tensor": True,
    "update_weights_from_distributed": True,
    "update_weights_from_ipc": True,
    "begin_weight_update": True,
    "end_weight_update": True,
    "release_memory_occupation": False,
    "resume_memory_occupation": False,
    "flush_cache": False,
}
#: Of the engines of the program.
_managers: WeakSet[Any] = WeakSet()


def patch_engine(module: ModuleType, patches: Patches) -> None:
    """``Engine`` has the server's parts, without its HTTP."""
    patches.observe(module, "Engine.__init__", **run_parts.following(Part.ENGINE), after=_has_started, required=True)
    for name, brings_weights in _OPERATIONS.items():
        begin = partial(_begin_operation, name, brings_weights)
        patches.observe(module, f"Engine.{name}", begin=begin, end=_end_operation)


def patch_tokenizer_manager(module: ModuleType, patches: Patches) -> None:
    """Each request of an engine passes here."""
    patches.observe(
        module, "TokenizerManager.generate_request", begin=_begin, each=_Request.observe, end=_end, required=True
    )


class _Request:
    """A call of ``generate``, with one request or a batch."""

    def __init__(self, manager: Any, given: Any) -> None:
        body = as_completion_request({"sampling_params": given.sampling_params})
        samples = body.get("n")
        self._answer = EngineAnswer(samples if isinstance(samples, int) and samples > 0 else 1)
        self._is_stream = bool(given.stream)
        values: dict[str, Any] = {}
        add_generation_parameters(values, body)
        model = str(getattr(manager, "served_model_name", "") or "")
        self._call = EngineCall(scope, GenAiOperationNameValues.TEXT_COMPLETION, "sglang", model, values)
        #: Newest output, of a batch that is streamed by its place.
        self._outputs: dict[int, Any] = {}

    def observe(self, output: Any) -> None:
        """Keep the newest output: in a stream each has all so far of one request, else the first is all."""
        self._outputs[output.get("index", 0) if isinstance(output, dict) else 0] = output
        if not self._is_stream:
            self.finish(None, None)

    def finish(self, error: BaseException | None, ended: str | None) -> None:
        """End the call, once."""
        if self._call.has_ended:
            return
        answer = self._answer
        outputs = [*self._outputs.values()]
        answer.observe(outputs[0] if len(outputs) == 1 else outputs)
        if outputs:
            self._call.requests = requests_of(answer, answer.finish_reasons or (ABORT,) * answer.samples)
        self._call.requests.logprobs = answer.logprobs
        values = {attributes.RL_INFERENCE_STREAM_ENDED: ended, **answer.version_attributes()}
        self._call.finish(error, values)
        engine_summary.add(self._call.requests.step_counts(), self._call.requests.times)


def _has_started(_: Any, engine: Any, *__: Any, **___: Any) -> None:
    _managers.add(engine.tokenizer_manager)


def _begin(manager: Any, given: Any, *_: Any, **__: Any) -> _Request | None:
    # Requests for embeddings and scores have no stream.
    if not scope.enabled or ownership.suppressed() or manager not in _managers or not hasattr(given, "stream"):
        return None
    return _Request(manager, given)


def _end(request: _Request, _: Any, error: BaseException | None) -> None:
    if isinstance(error, GeneratorExit):
        request.finish(None, Ended.CLOSED)
    else:
        cancelled = Ended.CANCELLED if isinstance(error, CancelledError) else None
        request.finish(error, Ended.COMPLETED if error is None else cancelled)


def _begin_operation(name: str, is_update: bool, *_: Any, **__: Any) -> SyncOperation | None:
    if not scope.enabled or ownership.suppressed():
        return None
    return SyncOperation(scope, name, {}, is_phase=is_phase(brings_weights=is_update))


def _end_operation(operation: SyncOperation, _: Any, error: BaseException | None) -> None:
    operation.end(error)
