"""Wrappers of ``mlflow``: a client logs metrics and parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.training import open_trackers
from otel_rl.training.scalars import Source
from otel_rl.training.trackers import Tracker

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextvars import Token
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

tracker = Tracker("mlflow", Source.MLFLOW)
#: Metrics of the machine, from a thread of MLflow's own whose steps are those of its clock.
_SYSTEM = "system/"


def patch_client(module: ModuleType, patches: Patches) -> None:
    """Patch the client, which the functions of ``mlflow`` use too."""
    patches.observe(module, "MlflowClient.log_metric", begin=_metric_begins, end=tracker.end, required=True)
    patches.observe(module, "MlflowClient.log_batch", begin=_batch_begins, end=tracker.end, required=True)
    patches.observe(module, "MlflowClient.set_terminated", before=_terminates)
    patches.observe(module, "MlflowClient.log_param", before=_parameter, required=True)


def _metric_begins(
    client: Any,
    run_id: str,
    key: str,
    value: Any,
    timestamp: Any = None,  # noqa: ARG001 - named as MLflow does, since it may come by its name
    step: Any = None,
    *__: Any,
    **___: Any,
) -> Token[object] | None:
    if not key.startswith(_SYSTEM):
        _note(client, run_id)
        tracker.single(key, value, _given(step), counter=0)
    return tracker.begin()


def _batch_begins(
    client: Any,
    run_id: str,
    metrics: Iterable[Any] = (),
    params: Iterable[Any] = (),
    *__: Any,
    **___: Any,
) -> Token[object] | None:
    # Sequences by their description; what can be read once only is left to MLflow.
    if isinstance(params, list | tuple) and params:
        tracker.parameters({param.key: param.value for param in params})
    by_step: dict[Any, dict[str, Any]] = {}
    for metric in metrics if isinstance(metrics, list | tuple) else ():
        if not metric.key.startswith(_SYSTEM):
            by_step.setdefault(metric.step, {})[metric.key] = metric.value
    if by_step:
        _note(client, run_id)
    for step, values in by_step.items():
        tracker.log(values, _given(step), counter=0)
    return tracker.begin()


def _parameter(
    _: Any,
    run_id: str,  # noqa: ARG001 - as above
    key: str,
    value: Any,
    *__: Any,
    **___: Any,
) -> None:
    tracker.parameters({key: value})


def _note(client: Any, run_id: str) -> None:
    # Each call of MLflow's functions makes a client; the run is what stays.
    if open_trackers.find("mlflow") is None:
        open_trackers.note("mlflow", (client, run_id))


def _terminates(_: Any, run_id: str, *__: Any, **___: Any) -> None:
    known = open_trackers.find("mlflow")
    if known is not None and known[1] == run_id:
        open_trackers.closing("mlflow", known)


def _given(step: Any) -> Any:
    """Return a step that the program gave; 0 is also what MLflow takes where it gave none."""
    return step or None
