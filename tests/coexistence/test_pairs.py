"""Beside every other instrumentor a call, run or tool has one span more than without ours only where it had none."""

from __future__ import annotations

import pytest

from coexistence.page import PAGE, rows
from coexistence.peers import expected, outcomes, peers, printed

#: Owners that record less than a whole set of metrics: what is missing is theirs, and ours does not add to it.
INCOMPLETE = {"openai-v2": {"chat, streamed", "chat, raw", "LangGraph with ChatOpenAI"}}

#: The library's own spans of runs leave by the pipeline of the product alone.
APART = {"logfire-pydantic-ai"}


def _total(recorded: tuple[tuple[str, int], ...]) -> int:
    return sum(count for _, count in recorded)


@pytest.mark.parametrize("peer", peers(), ids=lambda peer: peer.name)
def test_a_call_is_recorded_once_and_as_the_table_says(peer):
    alone = outcomes(peer, "alone")
    for mode in peer.modes:
        assert printed(peer, mode) == printed(peer, "alone"), mode
        for call, outcome in outcomes(peer, mode).items():
            known = expected(peer, call)
            assert outcome.apart == alone[call].apart, (mode, call, outcome)
            # If there are more without ours, it withholds Anthropic's own.
            most = max(len(alone[call].spans), known.models)
            assert known.models <= len(outcome.spans) <= most, (mode, call, outcome)
            assert {tokens for _, tokens in outcome.spans} == {known.tokens // known.models}, (mode, call, outcome)
            agents = 0 if peer.name in APART else known.agents
            assert len(outcome.agents) == max(len(alone[call].agents), agents), (mode, call, outcome)
            assert len(outcome.tools) == max(len(alone[call].tools), known.tools), (mode, call, outcome)
            assert _total(outcome.durations) == known.models, (mode, call, outcome)
            if call in INCOMPLETE.get(peer.name, ()):
                assert _total(outcome.tokens) == 0 == _total(alone[call].tokens), (mode, call, outcome)
            else:
                assert _total(outcome.tokens) == known.tokens, (mode, call, outcome)
    page = PAGE.read_text()
    for row in rows(peer):
        assert row in page
