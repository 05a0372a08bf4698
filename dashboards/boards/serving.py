"""Serving: what do the inference engines do, by replica, as they measure it themselves?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.boards.annotations import FIRING_ALERTS
from dashboards.boards.run_selector import RUN
from dashboards.lib import links, panels, search
from dashboards.lib.engines import INSTANCE, OF_A_REPLICA, SLEEP_VLLM, routed
from dashboards.lib.layout import Board, Cell, Row
from dashboards.lib.names import shown
from dashboards.lib.promql import Match, aggregate, recorded, series
from dashboards.lib.queries import LokiQuery, PromQuery
from dashboards.lib.variables import replicas
from dashboards.rules import engines as rules
from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import GenAiOperationNameValues

if TYPE_CHECKING:
    from dashboards.lib.rules import RecordingRule

_EMPTY = "Empty: nothing scrapes the engines of this run, see docs/engine-metrics.md. "
_QUANTILE = "quantile"
_WIDTH = 8
_CALL_TRACES = links.traces(
    "Model calls of the run", search.equal(attributes.GEN_AI_OPERATION_NAME, GenAiOperationNameValues.CHAT)
)


def _query(rule: RecordingRule, *keys: str, legend: str = "") -> PromQuery:
    text = aggregate("max", recorded(rule.name, OF_A_REPLICA), INSTANCE, *keys)
    return PromQuery(text, legend or shown(INSTANCE, *keys), empty_when=rule.empty_when)


def _lines(
    title: str,
    description: str,
    *queries: PromQuery,
    unit: str = "short",
    maximum: float | None = None,
    to_traces: bool = False,
) -> Cell:
    panel = panels.timeseries(
        title,
        description,
        queries,
        unit=unit,
        minimum=0,
        maximum=maximum,
        links=[_CALL_TRACES] if to_traces else [],
    )
    return Cell(panel, width=_WIDTH)


_LOAD = Row(
    "Load, by replica",
    (
        _lines(
            "Running requests",
            f"{_EMPTY}Requests in computation. One replica far below the others: the router does not spread them, or "
            "it answers faster; 0 while others work: runbook EngineUnused.",
            _query(rules.RUNNING),
        ),
        _lines(
            "Waiting requests",
            f"{_EMPTY}Requests in a replica's queues; with prefill and decode apart, those for a transfer too. Grows "
            "without an end: runbook EngineQueueGrowing.",
            _query(rules.WAITING),
        ),
        _lines(
            "KV cache in use",
            f"{_EMPTY}Share of the room for the context of requests. Near 1 requests wait or are preempted: fewer at "
            "once, shorter contexts, or more memory for the cache.",
            _query(rules.KV_USAGE),
            unit="percentunit",
            maximum=1,
        ),
        _lines(
            "Tokens generated per second",
            f"{_EMPTY}Falls while requests wait: preemptions, or a batch that is full of long prompts.",
            _query(rules.GENERATED),
            unit="cps",
        ),
        _lines(
            "Prompt tokens from the prefix cache",
            "Empty: no request came, or nothing scrapes the engines. Share of the tokens of prompts. Low for agents "
            "with several turns: the router sends a conversation to another replica each turn, or caching is off.",
            _query(rules.PREFIX_HITS),
            unit="percentunit",
            maximum=1,
        ),
        _lines(
            "Preempted requests per second",
            f"{_EMPTY}vLLM: preemptions, SGLang: retractions. Their work is done twice. Not 0: fewer requests at once, "
            "or more memory for the cache.",
            _query(rules.PREEMPTIONS),
            unit="cps",
        ),
    ),
)

_LATENCY = Row(
    "Latency, by replica",
    tuple(
        _lines(
            title,
            f"Empty: no request came within {rules.WINDOW}, or nothing scrapes the engines. {meaning}",
            _query(rule, _QUANTILE),
            unit="s",
            to_traces=True,
        )
        for title, meaning, rule in (
            (
                "Time in the queue",
                "From arrival to the first computation. Long on one replica only: it gets more than its share.",
                rules.QUEUE_TIME,
            ),
            (
                "Time to the first token",
                "Queue and prefill together. Longer than the queue by seconds: long prompts that are not in the cache.",
                rules.FIRST_TOKEN,
            ),
            (
                "Time between two tokens",
                "Decode. p99 far above p50: prefills of others interrupt, or the batch is too large.",
                rules.INTER_TOKEN,
            ),
        )
    ),
)

_AWAKE = (Match("sleep_state", "awake"), OF_A_REPLICA)
_STATE = Row(
    "Failures, transfers and weights, by replica",
    (
        _lines(
            "Requests without an answer, per second",
            f"{_EMPTY}Aborted, or ended by an error. Rises at the end of each step where the program cancels what is "
            "late; else look at the engine's log.",
            _query(rules.ABORTED),
            unit="cps",
        ),
        _lines(
            "Transfer speed",
            "Empty: prefill and decode share their servers, or nothing was transferred. Bytes per second while a KV "
            "cache moves. Lower than before: another path (TCP instead of RDMA), or a busy link.",
            _query(rules.TRANSFER_SPEED),
            unit="Bps",
        ),
        _lines(
            "Time of a transfer",
            "Empty: prefill and decode share their servers, or nothing was transferred. Mean seconds; it is part of "
            "the time to the first token.",
            _query(rules.TRANSFER_TIME),
            unit="s",
        ),
        _lines(
            "Failed transfers",
            f"{_EMPTY}Within a quarter of an hour, with hand-shakes that failed and caches that expired. Not 0: "
            "runbook EngineTransferFailing.",
            _query(rules.TRANSFER_FAILURES),
        ),
        _lines(
            "Awake",
            "Empty: the engine is not vLLM; SGLang has no such metric. 1 awake, 0 asleep. Asleep while the trainer "
            "samples: it forgot to wake it.",
            PromQuery(
                " or ".join(
                    aggregate("min", series(metric, *_AWAKE), INSTANCE) for metric in (SLEEP_VLLM, routed(SLEEP_VLLM))
                ),
                shown(INSTANCE),
                empty_when="the engine is not vLLM",
            ),
            maximum=1,
        ),
        _lines(
            "Update of the weights",
            "Empty: weights come over another way than the engine's own operations. Seconds of the last update "
            "(SGLang), or the mean of a quarter of an hour (vLLM). One replica is slower: its link.",
            _query(rules.WEIGHT_UPDATE),
            unit="s",
        ),
        _lines(
            "Cannot be scraped",
            "Empty: nothing scrapes the engines of this run, see docs/engine-metrics.md. 1: no answer, too much of "
            "it, no metric in it, or gone from its router; runbook EngineUnscraped.",
            # By the address alone: also a router, which is no replica.
            PromQuery(
                aggregate("max", recorded(rules.UNSCRAPED.name), INSTANCE),
                shown(INSTANCE),
                empty_when=rules.UNSCRAPED.empty_when,
            ),
            maximum=1,
        ),
        Cell(
            panels.logs(
                "Calls that hang, and syncs that went wrong",
                "Empty: every call returned in time, every sync brought the weights. As the processes of the job see "
                "it; compare with the replica's queue and its update of the weights above.",
                LokiQuery(
                    search.events(events.RL_CALL_HANG, events.RL_CALL_HANG_END, events.RL_SYNC_PROBLEM),
                    empty_when="every call returned in time, and every sync brought the weights",
                ),
            ),
            width=16,
        ),
    ),
)

BOARD = Board(
    name="serving",
    title="otel-rl / Serving",
    description="What do the inference engines do, by replica, as they measure it themselves: vLLM, SGLang, routers?",
    variables=(RUN, replicas(rules.RUNNING.name)),
    rows=(_LOAD, _LATENCY, _STATE),
    annotations=(FIRING_ALERTS,),
)
