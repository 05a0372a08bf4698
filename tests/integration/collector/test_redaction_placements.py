"""A secret in any place of any signal leaves the real collector as a mask, and all around it as it came."""

from __future__ import annotations

from typing import Any

import pytest
import redaction_cases
from collector_process import FILE_SINK, SIGNAL_PATHS, wait_for

BASES = {"local": ("local.yaml",), "gateway": ("gateway.yaml", FILE_SINK), "agent": ("agent.yaml", FILE_SINK)}
CASES = {"traces": redaction_cases.spans, "logs": redaction_cases.records, "metrics": redaction_cases.metrics}
PLACE = "test.place"


def labelled(groups: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Give every resource group the name of its case, so that it can be told in the output."""
    for name, group in groups.items():
        group["resource"]["attributes"].append({"key": PLACE, "value": {"stringValue": name}})
    return list(groups.values())


def place_of(group: dict[str, Any]) -> str:
    found = [pair["value"]["stringValue"] for pair in group["resource"]["attributes"] if pair["key"] == PLACE]
    return "".join(found)


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


@pytest.fixture(params=BASES, ids=str)
def collector(request, start_collector):
    return start_collector(
        *BASES[request.param], OTEL_RL_COLLECTOR_ROOT_WAIT="1s", OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE="100"
    )


def cleaned(collector, signal: str, groups: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Send resource groups and return what came out, by the name of the case."""
    collector.send(signal, groups)
    sent = {place_of(group) for group in groups}

    def all_there() -> dict[str, dict[str, Any]] | None:
        found = {place_of(group): group for group in collector.resources(signal) if place_of(group) in sent}
        return found if len(found) == len(groups) else None

    return wait_for(all_there, f"{len(groups)} groups of {signal}")


@pytest.mark.parametrize("signal", CASES)
def test_a_secret_in_any_place_becomes_a_mask_and_nothing_else_changes(collector, signal):
    secret = redaction_cases.made_up_secret()
    groups = CASES[signal](secret)
    out = cleaned(collector, signal, labelled(groups))
    assert secret not in collector.text(signal)
    wrong = {
        name: missing(redaction_cases.masked(group, secret), redaction_cases.masked(out[name], secret))
        for name, group in groups.items()
    }
    assert {name: lines for name, lines in wrong.items() if lines} == {}
    assert all("[redacted" in repr(group) for group in out.values())


@pytest.mark.parametrize("signal", CASES)
def test_a_second_hop_changes_nothing(start_collector, signal):
    collector = start_collector("local.yaml")
    first = cleaned(collector, signal, labelled(CASES[signal](redaction_cases.made_up_secret())))
    again = [
        {
            **group,
            "resource": {"attributes": [pair for pair in group["resource"]["attributes"] if pair["key"] != PLACE]},
        }
        for group in first.values()
    ]
    second = cleaned(collector, signal, labelled({f"{name}-again": again[i] for i, name in enumerate(first)}))
    path = next(key for key in next(iter(first.values())) if key.startswith("scope"))
    assert path.lower() == "scope" + SIGNAL_PATHS[signal].removeprefix("resource").lower()
    for name, group in first.items():
        assert second[f"{name}-again"][path] == group[path], name


@pytest.mark.parametrize("signal", CASES)
def test_content_leaves_in_no_kind_of_attributes_and_what_is_beside_it_does(collector, signal):
    sent = redaction_cases.content("the planted prompt about violet elephants")[signal]
    collector.send(signal, sent)
    (got,) = wait_for(lambda: list(collector.resources(signal)), signal)
    assert "violet" not in collector.text(signal)
    kept = repr({"key": "kept", "value": {"intValue": "1"}})
    assert repr(got).count(kept) == repr(sent).count(kept)
    assert '{"kept": 1, "messages": "[content removed]"}' in repr(got)
