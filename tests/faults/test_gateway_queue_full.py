"""One gateway stays away until its queue is full: senders are pushed back, and nobody is flooded with copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.collector.collector_process import wait_for

if TYPE_CHECKING:
    from chain import Chain
    from ledger_process import Ledger
    from results import Table

QUEUE_BYTES = 2_000_000


def test_a_full_queue_pushes_back_with_bounded_duplicates(chain: Chain, ledger: Ledger, table: Table):
    gateways = [chain.gateway(1), chain.gateway(2)]
    agent = chain.agent(gateways, OTEL_RL_COLLECTOR_QUEUE_BYTES=str(QUEUE_BYTES))
    gateways[1].start()
    agent.start()
    ledger.send("pushed back", agent.endpoint)
    wait_for(lambda: ledger.report("pushed back")["retries"] >= 24, "every rank to be pushed back three times")
    gateways[0].start()
    before = ledger.report("pushed back")["acked"]
    ledger.wait_for_spans("pushed back", before + 20_000)
    ledger.stop("pushed back")
    account = ledger.wait_for_all("pushed back")
    table.add("queue of one of two gateways full", account, retried_requests=account["retries"])
    assert account["lost"] == account["altered"] == account["split_traces"] == account["refused"] == 0
    # The request that finds the queue full may have given the other gateway its half; those after it are refused whole.
    assert account["duplicates"] <= account["acked"] // 4
    assert account["most_copies"] <= 4
