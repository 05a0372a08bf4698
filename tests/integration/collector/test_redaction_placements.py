"""A secret in any place of any signal leaves the real collector as a mask, and all around it as it came."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import redaction_cases
from collector_process import SIGNAL_PATHS, wait_for

CASES = {"traces": redaction_cases.spans, "logs": redaction_cases.records, "metrics": redaction_cases.metrics}
PLACE = "test.place"
_NUMBERS = itertools.count()


def missing(expected: Any, got: Any, where: str = "") -> list[str]:
    """Return what of `expected` is not in `got`. A collector may add attributes and fields, and change nothing."""
    if isinstance(expected, dict) and isinstance(got, dict):
        return [line for key, item in expected.items() for line in missing(item, got.get(key), f"{where}.{key}")]
    if isinstance(expected, list) and isinstance(got, list):
        if expected and isinstance(expected[0], dict) and "key" in expected[0]:
            return [f"{where}: no {pair}" for pair in expected if pair not in got]
        if len(expected) == len(got):
            return [line for i, item in enumerate(expected) for line in missing(item, got[i], f"{where}[{i}]")]
    return [] if expected == got else [f"{where}: {got!r} is not {expected!r}"]


def cleaned(collector, signal: str, groups: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Send resource groups, each with the name of its case, and return what came out, by that name."""
    sent = {f"{next(_NUMBERS)} {name}": group for name, group in groups.items()}
    for place, group in sent.items():
        group["resource"]["attributes"].append({"key": PLACE, "value": {"stringValue": place}})
    collector.send(signal, list(sent.values()))

    def all_there() -> dict[str, dict[str, Any]] | None:
        found = {place_of(group): group for group in collector.resources(signal)}
        return found if sent.keys() <= found.keys() else None

    found = wait_for(all_there, f"{len(groups)} groups of {signal}")
    return {name: found[place] for name, place in zip(groups, sent, strict=True)}


def place_of(group: dict[str, Any]) -> str:
    found = [pair["value"]["stringValue"] for pair in group["resource"]["attributes"] if pair["key"] == PLACE]
    return "".join(found)


@pytest.mark.parametrize("signal", CASES)
def test_a_secret_in_any_place_becomes_a_mask_and_nothing_else_changes(redacting, signal):
    secret = redaction_cases.made_up_secret()
    groups = CASES[signal](secret)
    out = cleaned(redacting, signal, groups)
    assert secret not in redacting.text(signal)
    wrong = {
        name: missing(redaction_cases.masked(group, secret), redaction_cases.masked(out[name], secret))
        for name, group in groups.items()
    }
    assert {name: lines for name, lines in wrong.items() if lines} == {}
    assert all("[redacted" in repr(group) for group in out.values())


@pytest.mark.parametrize("redacting", ["local"], indirect=True)
@pytest.mark.parametrize("signal", CASES)
def test_a_second_hop_changes_nothing(redacting, signal):
    first = cleaned(redacting, signal, CASES[signal](redaction_cases.made_up_secret()))
    again = {
        name: {
            **group,
            "resource": {"attributes": [pair for pair in group["resource"]["attributes"] if pair["key"] != PLACE]},
        }
        for name, group in first.items()
    }
    second = cleaned(redacting, signal, again)
    path = next(key for key in next(iter(first.values())) if key.startswith("scope"))
    assert path.lower() == "scope" + SIGNAL_PATHS[signal].removeprefix("resource").lower()
    for name, group in first.items():
        assert second[name][path] == group[path], name


@pytest.mark.parametrize("signal", CASES)
def test_content_leaves_in_no_kind_of_attributes_and_what_is_beside_it_does(redacting, signal):
    (sent,) = redaction_cases.content("the planted prompt about violet elephants")[signal]
    got = cleaned(redacting, signal, {"content": sent})["content"]
    assert "violet" not in redacting.text(signal)
    kept = repr({"key": "kept", "value": {"intValue": "1"}})
    assert repr(got).count(kept) == repr(sent).count(kept)
    assert '{"kept": 1, "messages": "[content removed]"}' in repr(got)
