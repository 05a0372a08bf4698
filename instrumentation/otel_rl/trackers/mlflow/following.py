"""What is sent to MLflow, and from when on: scalars by the leading process, spans by all of them."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.core import clock
from otel_rl.pipeline import exporter_selection, exporters, private_random, python_warnings
from otel_rl.pipeline.batching import Limits
from otel_rl.pipeline.processors import QueueSpanProcessor, mark_truncation
from otel_rl.pipeline.sink import Sink
from otel_rl.process import process_identity
from otel_rl.telemetry import lifecycle
from otel_rl.trackers.mlflow import parameters, points, server
from otel_rl.trackers.mlflow.destination import EXPORTER, MlflowDestination
from otel_rl.trackers.mlflow.run import MlflowRun
from otel_rl.training import configuration, scalars, steps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.pipeline.batching import BatchQueue
    from otel_rl.pipeline.providers import Telemetry
    from otel_rl.trackers.mlflow.points import LoggedPoints
    from otel_rl.training.log_calls import LogCall

#: Most items that wait. A request has room for 1,000 values and tags, and is full when an item has filled it beyond
#: the limit here. Seconds between two requests.
_SCALARS = Limits(queue=4096, batch=1000 - points.MOST_VALUES - 10, delay=5.0)
_SPANS = Limits(delay=5.0)


#: What hands values to the server in this process; None where none is followed.
follower: MlflowFollower | None = None


class MlflowFollower:
    """Hands what is logged to the queue in front of the server."""

    def __init__(self, run: MlflowRun, queue: BatchQueue[LoggedPoints]) -> None:
        self._run = run
        self._queue = queue

    def logged(self, call: LogCall) -> None:
        """Take in a log call that has been recorded."""
        if not process_identity.current().leads_training:
            return
        loop = steps.loop_in(call.context)
        name = loop.name if loop is not None else None
        for item in points.of_log_call(call.iteration, call.values, call.timestamp, name):
            self._queue.emit(item)

    def write(self, run_id: str, iteration: int, values: Mapping[str, float]) -> None:
        """Write figures of a step to the run that the program logs to, where this process has not joined another."""
        self._run.use(run_id)
        for item in points.of_log_call(iteration, values, clock.now(), None):
            self._queue.emit(item)

    def step_recorded(self, step: steps.Step, *_: Any) -> None:
        """Note the latest step that has a trace."""
        if process_identity.current().leads_training and step.trace_id:
            self._run.tags = {
                parameters.STEP_TAG: str(step.iteration),
                parameters.TRACE_TAG: f"{step.trace_id:032x}",
            }


def begin(telemetry: Telemetry, *, figures_only: bool = False) -> None:
    """Follow this process; nothing is sent, and nobody is asked, before there is something to send.

    ``figures_only``: what is handed to :meth:`MlflowFollower.write`, and nothing else.
    """
    global follower
    run = MlflowRun(server.run_id(), is_described=not figures_only)
    destination = MlflowDestination(EXPORTER, server.configured_now().shown)
    lifecycle.after_fork_in_child(run.after_fork_in_child)
    if not figures_only and telemetry.tracer_provider is not None and takes_spans(os.environ):
        spans = Sink("traces", destination, partial(_open_traces, run))
        telemetry.tracer_provider.add_span_processor(
            QueueSpanProcessor(telemetry.queue(spans, _SPANS, mark_truncation))
        )
    # The queue made last is served first: at the end values, and how the run ended, come before spans.
    values = Sink("metrics", destination, partial(_open_scalars, run), points.count)
    follower = MlflowFollower(run, telemetry.queue(values, _SCALARS, weigh=lambda item: len(item.values)))
    if figures_only:
        return
    configuration.listeners.add(run.configured)
    scalars.sink.listeners.add(follower.logged)
    steps.listeners.add(follower.step_recorded)


def takes_spans(environ: Mapping[str, str]) -> bool:
    """Return whether spans go to the server directly: not where they go to a collector, or somebody has decided."""
    decided = environ.get("OTEL_TRACES_EXPORTER", "").strip() or environ.get("OTEL_CONFIG_FILE", "").strip()
    return not decided and exporter_selection.endpoint(environ, "traces") is None


def _open_scalars(run: MlflowRun) -> Any:
    with exporters.opening, python_warnings.remembered():
        from otel_rl.trackers.mlflow.api import MlflowApi  # noqa: PLC0415 - with the first values
        from otel_rl.trackers.mlflow.scalars import ScalarWriter  # noqa: PLC0415 - as above

        writer = ScalarWriter(MlflowApi(server.configured_now()), run)
        private_random.isolate()
    return writer


def _open_traces(run: MlflowRun) -> Any:
    with exporters.opening, python_warnings.remembered():
        from otel_rl.trackers.mlflow.api import MlflowApi  # noqa: PLC0415 - with the first spans
        from otel_rl.trackers.mlflow.traces import TraceSender  # noqa: PLC0415 - as above

        sender = TraceSender(MlflowApi(server.configured_now()), run)
        private_random.isolate()
    return sender
