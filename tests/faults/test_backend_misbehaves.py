"""The backend behind a gateway refuses, hangs, cuts and throttles: the gateway queues on disk, and nothing is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from integration.collector.collector_process import wait_for
from ledger_process import SPANS_PER_BATCH

if TYPE_CHECKING:
    from chain import Chain
    from ledger_process import Ledger
    from results import Table

SPANS = 30_000


def disturbed(ledger: Ledger, chain: Chain, run: str, failures: int, mode: str, **how: int) -> dict[str, Any]:
    """Send through a gateway to a backend that fails this many requests from the middle of the run on."""
    gateway = chain.gateway()
    gateway.start()
    ledger.send(run, gateway.endpoint, spans=SPANS)
    ledger.wait_for_spans(run, SPANS // 4)
    ledger.behave(mode, **how)
    if failures:
        wait_for(lambda: ledger.counts()["failed"] >= failures, f"{failures} failed requests")
    else:
        ledger.wait_for_acknowledged(run, SPANS // 2)
    if "every" not in how:
        ledger.behave("serve")
    ledger.wait_for_spans(run, SPANS)
    ledger.stop(run)
    return ledger.wait_for_all(run)


def dead_letters(chain: Chain) -> list[str]:
    """Return the ids of the spans in the gateway's dead-letter files."""
    lines = (line for file in chain.folder.rglob("*traces*.jsonl") for line in file.read_text().splitlines())
    resources = (resource for line in lines for resource in json.loads(line)["resourceSpans"])
    return [span["spanId"] for resource in resources for scope in resource["scopeSpans"] for span in scope["spans"]]


def assert_nothing_lost(account: dict[str, Any]) -> None:
    assert account["received"] == account["acked"] == SPANS
    assert account["lost"] == account["altered"] == account["refused"] == 0


@pytest.mark.quick
def test_a_backend_that_is_down_costs_no_span(chain: Chain, ledger: Ledger, table: Table):
    account = disturbed(ledger, chain, "down", 0, "refuse")
    table.add("backend refuses connections", account)
    assert_nothing_lost(account)
    assert account["duplicates"] <= 10 * 2 * SPANS_PER_BATCH  # stored when the connection was cut


def test_a_backend_that_hangs_costs_no_span(chain: Chain, ledger: Ledger, table: Table):
    account = disturbed(ledger, chain, "hang", 1, "hang")
    table.add("backend hangs", account)
    assert_nothing_lost(account)
    assert account["duplicates"] == 0


def test_a_backend_that_throttles_every_third_request_costs_no_span(chain: Chain, ledger: Ledger, table: Table):
    account = disturbed(ledger, chain, "throttle", 3, "status", status=429, retry_after=1, every=3)
    table.add("backend answers 429 with Retry-After", account)
    assert_nothing_lost(account)
    assert account["duplicates"] == 0


def test_a_backend_that_is_unavailable_costs_no_span(chain: Chain, ledger: Ledger, table: Table):
    account = disturbed(ledger, chain, "unavailable", 3, "status", status=503)
    table.add("backend answers 503", account)
    assert_nothing_lost(account)
    assert account["duplicates"] == 0


@pytest.mark.quick
def test_a_backend_that_refuses_gzip_costs_no_span_once_that_is_put_right(chain: Chain, ledger: Ledger, table: Table):
    account = disturbed(ledger, chain, "gzip", 3, "no_gzip")
    table.add("backend refuses gzip", account)
    assert_nothing_lost(account)
    assert account["duplicates"] == 0
    assert dead_letters(chain) == []


def test_what_a_backend_refuses_for_good_is_in_the_dead_letters_span_by_span(
    chain: Chain, ledger: Ledger, table: Table
):
    gateway = chain.gateway()
    gateway.start()
    ledger.send("refused", gateway.endpoint, spans=SPANS)
    ledger.wait_for_spans("refused", SPANS // 4)
    ledger.behave("poison", every=997)
    ledger.wait_for_acknowledged("refused", SPANS)
    account = ledger.wait_until_still("refused")
    letters = dead_letters(chain)
    table.add("backend refuses some spans for good", account, dead_letters=len(letters))
    assert account["refused"] == account["altered"] == account["duplicates"] == 0
    assert len(letters) == len(set(letters)) == account["lost"] > 0


def test_answers_that_get_lost_double_only_what_they_were_for(chain: Chain, ledger: Ledger, table: Table):
    account = disturbed(ledger, chain, "cut", 2, "cut")
    counts = ledger.counts()
    table.add("backend stores and hangs up", account, cut_answers=counts["failed"])
    assert_nothing_lost(account)
    assert 0 < counts["cut_spans"] <= account["duplicates"] <= counts["cut_spans"] + account["ambiguous_spans"]
