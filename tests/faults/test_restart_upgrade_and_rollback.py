"""Collectors are restarted, gateways are added and taken away: what waits in old queues is delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chain import Chain
    from ledger_process import Ledger
    from results import Table

SPANS = 40_000
WAITING = 8192


def test_restarts_under_load_lose_and_double_nothing(chain: Chain, ledger: Ledger, table: Table):
    gateways = [chain.gateway(1), chain.gateway(2)]
    agent = chain.agent(gateways)
    for each in (*gateways, agent):
        each.start()
    ledger.send("restart", agent.endpoint)
    for number, each in enumerate((agent, *gateways)):
        ledger.wait_for_spans("restart", (number + 1) * 10_000)
        assert each.stop() == 0
        each.start()
    ledger.wait_for_spans("restart", SPANS)
    ledger.stop("restart")
    account = ledger.wait_for_all("restart")
    table.add("agent and gateways restarted", account)
    assert account["lost"] == account["altered"] == account["split_traces"] == account["refused"] == 0
    assert account["duplicates"] <= account["ambiguous_spans"]


@pytest.mark.quick
def test_queues_of_one_gateway_are_delivered_after_a_second_is_added(chain: Chain, ledger: Ledger, table: Table):
    gateways = [chain.gateway(1), chain.gateway(2)]
    queue = {"OTEL_RL_COLLECTOR_QUEUE_DIR": str(chain.folder / "queue")}
    before, after = chain.agent(gateways[:1], "before", **queue), chain.agent(gateways, "after", **queue)
    before.start()
    ledger.send("grown", before.endpoint, spans=WAITING, rate=0)
    ledger.wait_for_acknowledged("grown", WAITING)
    assert before.stop() == 0
    for each in (*gateways, after):
        each.start()
    ledger.wait_for_spans("grown", WAITING)
    account = ledger.wait_for_all("grown")
    table.add("upgrade to two gateways with an old queue", account)
    assert account["duplicates"] == account["split_traces"] == 0


@pytest.mark.quick
def test_the_queue_of_a_gateway_that_was_taken_away_waits_until_it_is_named_again(
    chain: Chain, ledger: Ledger, table: Table
):
    gateways = [chain.gateway(1), chain.gateway(2)]
    queue = {"OTEL_RL_COLLECTOR_QUEUE_DIR": str(chain.folder / "queue")}
    two, one = chain.agent(gateways, "two", **queue), chain.agent(gateways[:1], "one", **queue)
    two.start()
    ledger.send("rollback", two.endpoint, spans=WAITING, rate=0)
    ledger.wait_for_acknowledged("rollback", WAITING)
    assert two.stop() == 0
    for each in (*gateways, one):
        each.start()
    ledger.wait_for_spans("rollback", 1)
    share = ledger.wait_until_still("rollback")["received"]
    assert 0 < share < WAITING
    assert one.stop() == 0
    two.start()
    ledger.wait_for_spans("rollback", WAITING)
    account = ledger.wait_for_all("rollback")
    table.add("rollback to one gateway with old queues", account, waited_for_the_second=WAITING - share)
    assert account["duplicates"] == account["split_traces"] == 0
