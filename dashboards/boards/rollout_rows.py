"""Rows of the rollouts board: model calls, tools and services."""

from __future__ import annotations

from dashboards.boards.lines import failures, quantiles
from dashboards.lib import links, panels, search
from dashboards.lib.layout import Cell, Row
from dashboards.lib.names import shown
from dashboards.lib.promql import Match, buckets, quantile, rate, zero_if_none
from dashboards.lib.queries import LokiQuery, PromQuery, TempoQuery
from otel_rl.semconv import attributes, events, metrics
from otel_rl.semconv.attributes import ErrorTypeValues, GenAiOperationNameValues

_CALL = metrics.GEN_AI_CLIENT_OPERATION_DURATION
_TOOL = metrics.GEN_AI_EXECUTE_TOOL_DURATION
_SERVICE = metrics.RL_SERVICE_DURATION
_NO_SERVICE = "OTEL_RL_SERVICES names none"
#: The official instrumentor's word for a stream that the program has left (opentelemetry-util-genai 1.3b0, `stream`).
_UNNAMED = ErrorTypeValues.OTHER
_TOOL_NAME = shown(attributes.GEN_AI_TOOL_NAME)

_CALL_TRACES = links.traces(
    "Model calls of the run",
    search.equal(attributes.GEN_AI_OPERATION_NAME, GenAiOperationNameValues.CHAT),
    "duration >= ${slower_than}",
)
_EXECUTE_TOOL = search.equal(attributes.GEN_AI_OPERATION_NAME, GenAiOperationNameValues.EXECUTE_TOOL)
_CLICKED_TOOL = search.equal(attributes.GEN_AI_TOOL_NAME, "${__field.labels.gen_ai_tool_name}")
_TOOL_TRACES = links.traces("Calls of this tool", _EXECUTE_TOOL, _CLICKED_TOOL)


MODEL_CALLS = Row(
    "Model calls",
    (
        Cell(
            panels.timeseries(
                "Calls per second",
                "Calls to models per second, by operation and model. Falls while rollouts run: clients wait on the "
                "engine or on tools.",
                [
                    PromQuery(
                        rate(_CALL, attributes.GEN_AI_OPERATION_NAME, attributes.GEN_AI_REQUEST_MODEL, part="count"),
                        legend=shown(attributes.GEN_AI_OPERATION_NAME, attributes.GEN_AI_REQUEST_MODEL),
                    )
                ],
                unit="cps",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "Latency",
                "Duration of a call as the client sees it. p99 far above p95: queues in the engine or retries; the "
                "trace behind a dot tells which.",
                quantiles(_CALL),
                unit="s",
                minimum=0,
                links=[_CALL_TRACES],
            )
        ),
        Cell(
            panels.heatmap(
                "Latency, all calls",
                "How many calls took how long. A second band is a second kind of call: long prompts, cold cache, "
                "another model. A dot leads to a call's trace.",
                PromQuery(buckets(_CALL), legend="{{le}}", format="heatmap", exemplar=True),
                unit="s",
            )
        ),
        Cell(
            panels.timeseries(
                "Tokens per second",
                "Tokens read and written by models per second. Much more input than output: the context is sent again "
                "each turn; see whether the engine's prefix cache is on.",
                [
                    PromQuery(
                        rate(metrics.GEN_AI_CLIENT_TOKEN_USAGE, attributes.GEN_AI_TOKEN_TYPE, part="sum"),
                        legend=shown(attributes.GEN_AI_TOKEN_TYPE),
                    )
                ],
                unit="cps",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "Time to the first chunk",
                "How long a streamed call waits for its first chunk: queue plus prefill. Rises with the load: the "
                "engine is full.",
                quantiles(metrics.GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK, empty_when="no call was streamed"),
                unit="s",
                minimum=0,
            ),
        ),
        Cell(
            panels.timeseries(
                "Failed calls",
                "Calls that failed per second, by kind of error. Timeouts: engine overloaded or dead; rate limits: "
                "too many clients; a burst after a weight update: the engine was paused. Streams that the program left "
                "have a line of their own beside the official OpenAI instrumentor, which calls them _OTHER, as kinds "
                "of error beyond the limit are.",
                [
                    failures(_CALL, where=(Match(attributes.ERROR_TYPE, _UNNAMED, "!="),)),
                    PromQuery(
                        zero_if_none(rate(_CALL, where=(Match(attributes.ERROR_TYPE, _UNNAMED),), part="count"), _CALL),
                        legend="left streams, or kinds beyond the limit",
                    ),
                ],
                unit="cps",
                minimum=0,
            )
        ),
    ),
)

TOOLS = Row(
    "Tools",
    (
        Cell(
            panels.timeseries(
                "Calls per second, by tool",
                "Tool executions per second. A tool that drops to 0: the policy has unlearnt it, or it is broken.",
                [
                    PromQuery(
                        rate(_TOOL, attributes.GEN_AI_TOOL_NAME, part="count"),
                        legend=_TOOL_NAME,
                    )
                ],
                unit="cps",
                minimum=0,
                links=[_TOOL_TRACES],
            )
        ),
        Cell(
            panels.timeseries(
                "Latency p95, by tool",
                "19 of 20 executions of a tool took less. A slow tool keeps its whole rollout, and with batched "
                "rollouts all others, waiting: add a timeout or more workers.",
                [
                    PromQuery(
                        quantile(0.95, _TOOL, attributes.GEN_AI_TOOL_NAME),
                        shown(attributes.GEN_AI_TOOL_NAME),
                        exemplar=True,
                    )
                ],
                unit="s",
                minimum=0,
                links=[_TOOL_TRACES],
            )
        ),
        Cell(
            panels.timeseries(
                "Failed executions, by tool, outcome and error",
                "Failures per second, also those that a tool reports in its answer. invalid_arguments or unknown_tool "
                "rising over a run: the policy learns to call it wrongly; timeout or tool_error all at once: the "
                "tool's backend is down.",
                [failures(_TOOL, attributes.GEN_AI_TOOL_NAME, attributes.RL_TOOL_OUTCOME)],
                unit="cps",
                minimum=0,
            )
        ),
        Cell(
            panels.table(
                "Failed tool calls",
                "Executions that failed; traces with an error are always kept. Open one to see what the agent did "
                "next.",
                [
                    TempoQuery(
                        search.traces_of_run(
                            _EXECUTE_TOOL,
                            "status = error",
                            show=(
                                attributes.GEN_AI_TOOL_NAME,
                                attributes.RL_TOOL_OUTCOME,
                                attributes.ERROR_TYPE,
                                attributes.RL_LOOP_ITERATION,
                            ),
                        ),
                        empty_when="no tool failed",
                    )
                ],
                unit="none",
                sort_by="Duration",
            ),
            width=14,
        ),
        Cell(
            panels.logs(
                "Tools that do not exist",
                "A model asked for a tool that its agent does not have. Many: the system prompt names the wrong "
                "tools, or the policy invents them.",
                LokiQuery(
                    search.events(events.RL_TOOL_UNKNOWN), empty_when="no model asked for a tool that does not exist"
                ),
            ),
            width=10,
        ),
        Cell(
            panels.logs(
                "Calls that hang",
                "Calls of tools, models and services that do not return, with rollout and function, and their ends. "
                "`otel-rl postmortem` says who waits for them. A first call that is meant to be long is told once.",
                LokiQuery(
                    search.events(events.RL_CALL_HANG, events.RL_CALL_HANG_END),
                    empty_when="every call returned in time",
                ),
            ),
            width=24,
        ),
    ),
)

SERVICES = Row(
    "Services",
    (
        Cell(
            panels.timeseries(
                "Requests per second, by service",
                "Requests to the services that OTEL_RL_SERVICES names, such as a reward server. Falls while rollouts "
                "run: they wait for a service that answers slowly.",
                [
                    PromQuery(
                        rate(_SERVICE, attributes.RL_SERVICE, part="count"),
                        legend=shown(attributes.RL_SERVICE),
                        empty_when=_NO_SERVICE,
                    )
                ],
                unit="cps",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "Duration p95, by service",
                "19 of 20 requests took less. A reward server or sandbox that gets slower with the load needs more "
                "workers: every rollout waits for it.",
                [
                    PromQuery(
                        quantile(0.95, _SERVICE, attributes.RL_SERVICE),
                        shown(attributes.RL_SERVICE),
                        exemplar=True,
                        empty_when=_NO_SERVICE,
                    )
                ],
                unit="s",
                minimum=0,
            )
        ),
        Cell(
            panels.timeseries(
                "Failed requests, by service and error",
                "Requests without an answer, or with status 400 or more, per second. Their samples score the lowest "
                "reward without having earned it.",
                [failures(_SERVICE, attributes.RL_SERVICE, empty_when=_NO_SERVICE)],
                unit="cps",
                minimum=0,
            )
        ),
    ),
)
