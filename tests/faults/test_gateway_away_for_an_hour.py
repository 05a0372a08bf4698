"""An hour without a gateway: the agent's disk takes the spans of that hour and gives them back after a crash."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chain import Chain, Collector
    from ledger_process import Ledger
    from results import Table

HOUR = 18_000_000
"""Spans of an hour at 5,000 a second."""

SHARE = int(os.environ.get("OTEL_RL_FAULTS_HOUR_DIVISOR", "1"))


def queued_bytes(agent: Collector) -> int:
    return sum(file.stat().st_size for file in agent.queue.iterdir() if file.name.endswith("_traces"))


def outage(chain: Chain, ledger: Ledger, table: Table, scenario: str, spans: int, seconds: float) -> None:
    gateways = [chain.gateway(1), chain.gateway(2)]
    agent = chain.agent(gateways, OTEL_RL_COLLECTOR_QUEUE_BYTES=str(16 << 30))
    agent.start()
    began = time.monotonic()
    ledger.send("hour", agent.endpoint, spans=spans, rate=0)
    ledger.wait_for_acknowledged("hour", spans, seconds)
    filled, size = time.monotonic() - began, queued_bytes(agent)
    agent.kill()
    for each in (*gateways, agent):
        each.start()
    began = time.monotonic()
    ledger.wait_for_spans("hour", spans, seconds)
    drained = time.monotonic() - began
    account = ledger.wait_for_all("hour")
    table.add(
        scenario,
        account,
        disk_megabytes=round(size / 1e6),
        bytes_per_span=round(size / spans),
        fill_seconds=round(filled),
        drain_seconds=round(drained),
    )
    assert account["lost"] == account["altered"] == account["split_traces"] == account["refused"] == 0
    # The gateways were away until the agent was killed: only what a sender repeated without an answer can come twice.
    assert account["duplicates"] <= account["ambiguous_spans"]


def test_what_an_outage_left_on_the_disk_arrives_whole(chain: Chain, ledger: Ledger, table: Table):
    outage(chain, ledger, table, "outage, 1/100 of an hour", HOUR // 100 // 4096 * 4096, 120)


@pytest.mark.full_size
def test_an_hour_of_spans_is_queued_and_drained(chain: Chain, ledger: Ledger, table: Table):
    share = f"1/{SHARE} of an hour" if SHARE > 1 else "an hour"
    outage(chain, ledger, table, f"outage, {share}", HOUR // SHARE // 4096 * 4096, 7200)
