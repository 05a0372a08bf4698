"""Row of the rollouts board: inference engines, as they measure themselves."""

from __future__ import annotations

from dashboards.boards.lines import quantiles
from dashboards.lib import panels, search
from dashboards.lib.layout import Cell, Row
from dashboards.lib.names import shown, traceql_name
from dashboards.lib.promql import Match, mean, rate, zero_if_none
from dashboards.lib.queries import PromQuery, TempoQuery
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import GenAiTokenTypeValues

_TYPE = attributes.GEN_AI_TOKEN_TYPE
_READ = (Match(_TYPE, GenAiTokenTypeValues.INPUT),)
_NONE = "no engine runs in a process of the run"


def _line(expression: str, legend: str) -> PromQuery:
    return PromQuery(expression, legend, empty_when=_NONE)


ENGINES = Row(
    "Inference engines",
    (
        Cell(
            panels.timeseries(
                "Requests per second",
                "Requests that engines in processes of the run have finished. Rises with the batch size until the "
                "queue below grows: more at once brings nothing then.",
                [
                    _line(
                        rate(metrics.GEN_AI_SERVER_REQUEST_DURATION, attributes.GEN_AI_REQUEST_MODEL, part="count"),
                        shown(attributes.GEN_AI_REQUEST_MODEL),
                    )
                ],
                unit="cps",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Tokens per second, in and out",
                "Tokens of prompts and of answers. Answers are what the step waits for; falls while requests wait: "
                "long contexts fill the cache.",
                [_line(rate(metrics.RL_ENGINE_TOKENS, _TYPE), shown(_TYPE))],
                unit="cps",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Where the time of a request goes",
                "Mean seconds of a request in the queue, in prefill and in decode. Queue: too many requests at once. "
                "Prefill: long prompts that are not in the cache. Decode: long answers, or a full batch.",
                [
                    _line(mean(metric), part)
                    for metric, part in (
                        (metrics.RL_ENGINE_QUEUE_DURATION, "queue"),
                        (metrics.RL_ENGINE_PREFILL_DURATION, "prefill"),
                        (metrics.RL_ENGINE_DECODE_DURATION, "decode"),
                    )
                ],
                unit="s",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Time to the first token",
                "From the arrival of a request in the engine to its first token. p99 far above p50: some requests "
                "wait for room in the batch.",
                quantiles(metrics.GEN_AI_SERVER_TIME_TO_FIRST_TOKEN, empty_when=_NONE),
                unit="s",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Prompt tokens from the cache",
                "Share of the tokens of prompts that the prefix cache had. Agents send their context again each turn: "
                "near 0 with several turns, look whether caching is on, or reset too often.",
                [
                    _line(
                        f"({zero_if_none(rate(metrics.RL_ENGINE_CACHED_TOKENS), metrics.RL_ENGINE_TOKENS)}) / "
                        f"{rate(metrics.RL_ENGINE_TOKENS, where=_READ)}",
                        "from the cache",
                    )
                ],
                unit="percentunit",
                minimum=0,
                maximum=1,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Answers, by the reason for their end",
                "Answers per second. Aborted: the program gave up, or a timeout was too short. Length: cut at the "
                "largest number of tokens.",
                [
                    _line(
                        rate(metrics.RL_ENGINE_FINISHED, attributes.RL_ENGINE_FINISH_REASON),
                        shown(attributes.RL_ENGINE_FINISH_REASON),
                    )
                ],
                unit="cps",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.timeseries(
                "Preemptions per second",
                "Requests that the engine had to interrupt for lack of memory. Not 0: fewer requests at once, or more "
                "memory for its cache.",
                [_line(zero_if_none(rate(metrics.RL_ENGINE_PREEMPTED), metrics.RL_ENGINE_TOKENS), "preemptions")],
                unit="cps",
                minimum=0,
            ),
            width=6,
        ),
        Cell(
            panels.table(
                "Engines in each step",
                "What all engines of a step did, served ones too as far as their answers say it. Times are means of "
                "the profiled requests.",
                [
                    TempoQuery(
                        search.traces_of_run(
                            search.named(spans.RL_RANK_STEP),
                            f"{traceql_name(attributes.RL_ENGINE_REQUESTS)} > 0",
                            show=(
                                attributes.RL_LOOP_ITERATION,
                                attributes.RL_ENGINE_REQUESTS,
                                attributes.RL_ENGINE_PROFILED_REQUESTS,
                                attributes.RL_ENGINE_INPUT_TOKENS,
                                attributes.RL_ENGINE_CACHED_TOKENS,
                                attributes.RL_ENGINE_OUTPUT_TOKENS,
                                attributes.RL_ENGINE_QUEUE_TIME,
                                attributes.RL_ENGINE_PREFILL_TIME,
                                attributes.RL_ENGINE_DECODE_TIME,
                                attributes.RL_ENGINE_TRANSFER_TIME,
                                attributes.RL_ENGINE_ABORTED_SAMPLES,
                            ),
                        ),
                        empty_when="no step has asked an engine",
                    )
                ],
                unit="none",
            ),
            width=24,
        ),
    ),
)
