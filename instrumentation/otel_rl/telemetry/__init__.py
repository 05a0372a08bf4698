"""The telemetry core: the only code of ours that holds a tracer, a meter or a logger.

========================  ==============================================================================
:class:`Scope`            spans, metrics and events of one instrumented library
:class:`Phase`            a phase of a training step: span and duration
:class:`ToolCall`         one tool call: ``execute_tool`` span and duration
:mod:`steps`              step traces in which all ranks meet
:mod:`run`                who this process is in the run
:mod:`drops`              counting what was not delivered
:mod:`lifecycle`          callbacks before shutdown and after a fork
:class:`guard`            keeps our errors away from the program
========================  ==============================================================================
"""

from __future__ import annotations

from otel_rl.telemetry import drops, lifecycle, run, steps
from otel_rl.telemetry.internal_errors import guard
from otel_rl.telemetry.phases import Phase
from otel_rl.telemetry.scope import Scope
from otel_rl.telemetry.tools import ToolCall

__all__ = ["Phase", "Scope", "ToolCall", "drops", "guard", "lifecycle", "run", "steps"]
