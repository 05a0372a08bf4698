"""The page on other instrumentors has a row for each that is tested; the rows come from ``make test-coexistence``."""

from __future__ import annotations

import pytest

pytest.importorskip("tomllib")
from coexistence.page import BEGIN, BESIDE, END, PAGE
from coexistence.peers import peers


@pytest.mark.parametrize("peer", peers(), ids=lambda peer: peer.name)
def test_every_peer_has_its_rows(peer):
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    for package in peer.packages:
        name, _, version = package.partition("==")
        assert name in BESIDE or f"{name} {version}" in table
