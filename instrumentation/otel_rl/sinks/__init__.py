"""Sinks: objects of the program that get each step of its run, added and removed while it runs.

::

    import otel_rl.sinks

    class Printed:
        def run_started(self, run): print("run", run.run_id, run.parameters)
        def step_ended(self, step): print(step.iteration, step.seconds, step.reward)
        def run_ended(self, run): print(run.status, run.values)
        def status(self): return otel_rl.sinks.SinkStatus("printed")

    otel_rl.sinks.add(Printed(), "printed")

================  ==============================================================================================
:class:`Sink`     the four methods
:func:`add`       hand each step to a sink from now on
:func:`remove`    hand it no more
:func:`get`       the sink of a name
:func:`status`    the state of all sinks, of our own exporters and of the program's span processors
:func:`trace_id`  the trace of the run, or of one of its steps
================  ==============================================================================================

A sink gets the steps of the leading process only, as the line of ``OTEL_RL_CONSOLE`` does, about a second after each.
It runs on one thread of its own, never on the program's. One that raises, hangs or is slow costs no other sink a step.

An object that lacks a method is a mistake in the program's text: :func:`add` raises. Nothing else raises here: whatever
depends on the state of the run is a line on standard error.

Modules:
    protocol: the methods of a sink, and what they are given.
    following: collects what belongs to a step, and hands it on.
    calls: the thread that calls sinks, and their queues.
    state: the state of sinks and exporters, and trace ids.
"""

from __future__ import annotations

from otel_rl.sinks.following import add, get, remove
from otel_rl.sinks.protocol import ProgramEvent, RunEnded, RunStarted, SinkStatus, StepEnded
from otel_rl.sinks.protocol import StepSink as Sink
from otel_rl.sinks.state import status, trace_id

__all__ = [
    "ProgramEvent",
    "RunEnded",
    "RunStarted",
    "Sink",
    "SinkStatus",
    "StepEnded",
    "add",
    "get",
    "remove",
    "status",
    "trace_id",
]
