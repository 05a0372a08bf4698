"""What Lightning hands to its loggers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.instrumentors.lightning.patch import scope
from otel_rl.telemetry import guard
from otel_rl.training import trainer_loop
from otel_rl.training.scalars import Source, sink

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


class _LogCall(NamedTuple):
    """A call of ``log_metrics`` that has not returned."""

    trainer: Any
    metrics: Mapping[str, Any]
    token: Token[object]


#: By the identity of what is logged: one per thread that trains.
_calls: dict[int, _LogCall] = {}


def patch_logger_connector(module: ModuleType, patches: Patches) -> None:
    """Patch what all values pass on their way to the loggers, and what reads them from the device for these.

    Values in device memory are read by Lightning, for its loggers; without a logger nobody reads them.
    """
    patches.observe(module, "_LoggerConnector.log_metrics", begin=_log_begins, end=_log_ended, required=True)
    patches.observe(module, "convert_tensors_to_scalars", after=_converted)


def _log_begins(connector: Any, metrics: Mapping[str, Any], *_: Any, **__: Any) -> _LogCall | None:
    if not metrics or not scope.enabled:
        return None
    call = _LogCall(connector.trainer, metrics, sink.begin_call(Source.LIGHTNING))
    with guard("lightning.log"):
        if call.trainer.loggers:
            _calls[id(metrics)] = call
        else:
            _record(call, metrics)
    return call


def _converted(values: Mapping[str, Any], metrics: Any, *_: Any, **__: Any) -> None:
    # Fabric calls this function too, with values of its own.
    call = _calls.get(id(metrics))
    if call is not None:
        _record(call, values)


def _record(call: _LogCall, values: Mapping[str, Any]) -> None:
    if call.trainer.is_global_zero:
        sink.log(scope, Source.LIGHTNING, _iteration(call.trainer), values)


def _iteration(trainer: Any) -> int:
    """Return the step that is open; the loggers get its number less one, or an axis that the program has chosen."""
    step = trainer_loop.current().step
    if step is not None:
        return step.iteration
    stepped: int = trainer.fit_loop.epoch_loop._batches_that_stepped  # noqa: SLF001 - what it gives the loggers
    return stepped


def _log_ended(call: _LogCall, _: Any, __: BaseException | None) -> None:
    _calls.pop(id(call.metrics), None)
    sink.end_call(call.token)
