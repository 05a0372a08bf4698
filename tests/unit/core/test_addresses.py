"""Addresses are shown without secrets, in Python as in the collector's components."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_rl.core import addresses

CASES = Path(__file__).parents[3] / "otelcol-builder/components/internal/addresses/testdata/cases.json"


@pytest.mark.parametrize("case", json.loads(CASES.read_text()), ids=lambda case: case["text"])
def test_no_secret_of_an_address_is_shown_and_all_else_is(case: dict[str, str]) -> None:
    assert addresses.without_secrets(case["text"]) == case["shown"]
    assert "S3cr" not in case["shown"]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://user:secret@c:4318/v1/traces?key=secret", "https://c:4318/v1/traces"),
        ("user:secret@c:4317", "c:4317"),
        ("http://user:secret@[::1:4318/x", "http://[::1:4318/x"),
        ("http://c/of/team-0123456789abcdef0123#x", "http://c/of/team-0123456789abcdef0123"),
    ],
)
def test_an_address_without_its_credentials_is_still_told_from_others(address: str, shown: str) -> None:
    assert addresses.without_credentials(address) == shown
