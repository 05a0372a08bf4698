"""Collectors are killed while ranks send: what was acknowledged arrives, and duplicates are bounded."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from chain import DURABLE_GATEWAY, Chain, Collector
from integration.collector.collector_process import wait_for
from ledger_process import RANKS, RATE, SPANS_PER_BATCH, Ledger

if TYPE_CHECKING:
    from results import Table

SPANS = 40_000
KILLS = 3
#: Spans that one exporter has under way at most: its consumers, each with one batch.
UNDER_WAY = 10 * 2 * SPANS_PER_BATCH
DECISION_SECONDS = 3
TRANSIT_SECONDS = 6


def started(*collectors: Collector) -> None:
    for each in collectors:
        each.start()


def any_moment() -> None:
    """Let what a wait has tied to the arrival of a batch happen at any point of the cycle of batches instead."""
    time.sleep(random.uniform(0, 0.5))  # noqa: S311  (nobody shall guess it less than another)


def finished(ledger: Ledger, run: str) -> dict[str, Any]:
    ledger.stop(run)
    return ledger.wait_for_all(run)


def span_count(ledger: Ledger) -> int:
    """Return how many spans the gateways' span metrics have counted."""
    return int(ledger.counts()["sums"].get("traces.span.metrics.calls", 0))


def span_metrics_excess(ledger: Ledger, run: str) -> int:
    """Return by how much the gateways' span counts exceed the spans that were sent, once those counts have come."""

    def all_counted() -> bool:
        account = ledger.report(run)
        return span_count(ledger) == account["received"] + account["duplicates"]

    wait_for(all_counted, "the counts of all spans that arrived")
    return span_count(ledger) - int(ledger.report(run)["sent"])


@pytest.mark.quick
def test_an_undisturbed_chain_delivers_every_span_once_and_every_trace_to_one_gateway(
    chain: Chain, ledger: Ledger, table: Table
):
    gateways = [chain.gateway(1), chain.gateway(2)]
    agent = chain.agent(gateways)
    started(*gateways, agent)
    ledger.send("calm", agent.endpoint, spans=SPANS)
    ledger.wait_for_spans("calm", SPANS)
    account = finished(ledger, "calm")
    table.add("no fault", account)
    assert account["received"] == SPANS
    assert account["duplicates"] == account["altered"] == account["split_traces"] == 0
    ledger.wait_for_count("traces.span.metrics.calls", SPANS)


@pytest.mark.quick
def test_an_agent_killed_again_and_again_loses_nothing(chain: Chain, ledger: Ledger, table: Table):
    gateways = [chain.gateway(1), chain.gateway(2)]
    agent = chain.agent(gateways)
    started(*gateways, agent)
    ledger.send("agent", agent.endpoint)
    for number in range(KILLS):
        ledger.wait_for_spans("agent", (number + 1) * 10_000)
        any_moment()
        agent.kill()
        agent.start()
    ledger.wait_for_spans("agent", SPANS)
    finished(ledger, "agent")
    excess = span_metrics_excess(ledger, "agent")
    account = ledger.report("agent")
    table.add("agent killed", account, kills=KILLS, span_metrics_excess=max(excess, 0))
    assert account["lost"] == account["altered"] == account["split_traces"] == account["refused"] == 0
    assert account["duplicates"] <= account["ambiguous_spans"] + KILLS * len(gateways) * UNDER_WAY
    assert account["most_copies"] <= 1 + 2 * KILLS  # under way to the agent, and from it
    assert excess <= account["duplicates"]


def test_a_gateway_that_is_killed_in_strict_mode_loses_nothing(chain: Chain, ledger: Ledger, table: Table):
    gateways = [chain.gateway(1), chain.gateway(2)]
    agent = chain.agent(gateways)
    started(*gateways, agent)
    ledger.send("strict", agent.endpoint)
    for number in range(KILLS):
        ledger.wait_for_spans("strict", (number + 1) * 10_000)
        any_moment()
        gateways[number % 2].kill()
        gateways[number % 2].start()
    ledger.wait_for_spans("strict", SPANS)
    account = finished(ledger, "strict")
    excess = span_count(ledger) - int(account["sent"])  # what a gateway counted last is lost with it
    table.add("gateway killed, strict", account, kills=KILLS, span_metrics_excess=max(excess, 0))
    assert account["lost"] == account["altered"] == account["split_traces"] == account["refused"] == 0
    assert account["duplicates"] <= 2 * KILLS * UNDER_WAY  # under way to it, and from it
    assert account["most_copies"] <= 1 + 2 * KILLS
    assert excess <= account["duplicates"]


def test_a_gateway_that_is_killed_while_traces_wait_for_their_decision_loses_those_at_most(
    chain: Chain, ledger: Ledger, table: Table
):
    waits = {
        "OTEL_RL_COLLECTOR_DECISION_WAIT": f"{DECISION_SECONDS}s",
        "OTEL_RL_COLLECTOR_ROOT_WAIT": f"{DECISION_SECONDS}s",
    }
    gateway = chain.gateway(1, DURABLE_GATEWAY, **waits)
    agent = chain.agent([gateway])
    started(gateway, agent)
    ledger.send("undecided", agent.endpoint)
    ledger.wait_for_spans("undecided", 10_000)
    killed = time.time()
    gateway.kill()
    gateway.start()
    ledger.wait_for_spans("undecided", SPANS)
    ledger.stop("undecided")
    account = ledger.wait_until_still("undecided")
    table.add(
        "gateway killed, tail sampling",
        account,
        decision_wait_seconds=DECISION_SECONDS,
        oldest_lost_seconds=round(killed - account["first_lost_ack"], 1) if account["lost"] else 0,
    )
    assert account["altered"] == account["refused"] == 0
    assert account["lost"] <= (DECISION_SECONDS + TRANSIT_SECONDS) * RATE + RANKS * SPANS_PER_BATCH
    if account["lost"]:
        assert account["first_lost_ack"] > killed - DECISION_SECONDS - TRANSIT_SECONDS
        assert account["last_lost_ack"] <= killed
