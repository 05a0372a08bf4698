"""Disk queues that are half written, broken, or opened by two collectors at once."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from chain import Chain, Collector
    from ledger_process import Ledger
    from results import Table

SPANS = 20_000
BYTES_PER_SPAN = 250  # about, in a queue


def filled(chain: Chain, ledger: Ledger, run: str) -> tuple[Collector, Collector]:
    """Return a killed agent whose queue holds all spans of the run, and its gateway, which never ran."""
    gateway = chain.gateway()
    agent = chain.agent([gateway])
    agent.start()
    ledger.send(run, agent.endpoint, spans=SPANS)
    ledger.wait_for_acknowledged(run, SPANS)
    agent.kill()
    return agent, gateway


def trace_queue(agent: Collector) -> Path:
    (file,) = (file for file in agent.queue.iterdir() if file.name.endswith("gateway_1_traces"))
    return file


def restart_on_what_is_left(ledger: Ledger, agent: Collector, gateway: Collector, run: str) -> None:
    """Start the collectors and see that new spans pass."""
    gateway.start()
    agent.start()
    ledger.send(f"after {run}", agent.endpoint, spans=4096, rate=0)
    ledger.wait_for_spans(f"after {run}", 4096)
    assert ledger.stop(f"after {run}")["duplicates"] == 0
    assert len(list(agent.queue.glob("*_traces.damaged-*"))) == 1
    assert "A queue file was damaged" in agent.log()


@pytest.mark.quick
def test_a_queue_whose_first_pages_are_overwritten_gives_back_what_it_held(chain: Chain, ledger: Ledger, table: Table):
    agent, gateway = filled(chain, ledger, "overwritten")
    with trace_queue(agent).open("r+b") as file:
        file.write(b"\xff" * 2 * mmap.PAGESIZE)
    restart_on_what_is_left(ledger, agent, gateway, "overwritten")
    account = ledger.wait_for_all("overwritten")
    table.add("queue file overwritten", account)
    assert account["lost"] == account["duplicates"] == account["altered"] == 0


def test_a_queue_that_is_half_written_gives_back_the_half_that_is_there(chain: Chain, ledger: Ledger, table: Table):
    agent, gateway = filled(chain, ledger, "half")
    os.truncate(trace_queue(agent), SPANS * BYTES_PER_SPAN // 2)
    restart_on_what_is_left(ledger, agent, gateway, "half")
    account = ledger.wait_until_still("half")
    table.add("queue file cut in half", account)
    assert 0 < account["lost"] < SPANS * 3 // 4
    assert account["duplicates"] == account["altered"] == 0


@pytest.mark.quick
def test_a_second_collector_on_a_queue_folder_gives_up_and_the_first_goes_on(
    chain: Chain, ledger: Ledger, table: Table
):
    gateway = chain.gateway()
    first = chain.agent([gateway])
    second = chain.agent([gateway], "second", OTEL_RL_COLLECTOR_QUEUE_DIR=str(first.queue))
    gateway.start()
    first.start()
    ledger.send("shared", first.endpoint)
    ledger.wait_for_spans("shared", SPANS // 2)
    second.launch()
    assert second.process is not None
    assert second.process.wait(timeout=60) != 0
    ledger.wait_for_spans("shared", SPANS)
    ledger.stop("shared")
    account = ledger.wait_for_all("shared")
    table.add("two collectors on one queue folder", account)
    assert str(first.queue) in second.log(), "it names the folder"
    assert account["lost"] == account["duplicates"] == account["retries"] == 0
