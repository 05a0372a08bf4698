"""The choke point: the only code of ours that holds a tracer, a meter or a logger.

========================  ==============================================================================
:class:`Scope`            spans, metrics and events of one instrumented library
``attribute_values``      attribute values as they may leave the process
``cardinality_budgets``   limits on the values of metric attributes, from the registry
``content_capture``       switch for prompts, completions, tool arguments and results
``context``               attach and detach contexts without a log line
``conversations``         the conversation of an agent, for the model calls below it
``correlation``           ``rl.*`` baggage and what it becomes on spans and log records
``deferral``              recordings that interrupt the SDK wait here
``deferred_span``         a span that is made when the SDK can be entered
``drops``                 counts of everything that was not delivered
``exception_text``        an exception as attributes of a log record
``held_traces``           spans of rollouts beyond those that a step sends
``histograms``            histograms that take negative values, and many values at once
``ids``                   trace and span ids, random or derived
``judging``               whether a reward is being computed
``lifecycle``             callbacks before shutdown and after a fork
``model_turns``           open model calls of one trajectory, and numbers of its turns
``object_values``         what an object of no built-in class holds, or its text
``open_spans``            what is added to spans while they are open
``open_trajectory``       what the calls of one trajectory add up to
``progress``              signs that the process goes on, for the watchdog
``propagation``           trace context and baggage to and from other processes
``redaction``             the user's function that sees content before it is recorded
``run_parts``             what the leading process does outside of steps, and which program it runs
``run_span``              the span of the run
``sampling``              hints for the sampler of the collector
``scope``                 the class :class:`Scope`
``self_metrics``          ``rl.telemetry.*`` metrics
``side_calls``            model calls of a trajectory that are no turns
``tool_matches``          which tool calls of a trajectory a model has asked for
:class:`guard`            keeps our errors away from the program
========================  ==============================================================================
"""

from __future__ import annotations

from otel_rl.core.guard import guard
from otel_rl.telemetry import drops, lifecycle, run_span
from otel_rl.telemetry.scope import Scope

__all__ = ["Scope", "drops", "guard", "lifecycle", "run_span"]
