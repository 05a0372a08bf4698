"""The soak fails for a leak, for noise that could hide one, and for nothing else."""

from __future__ import annotations

import pytest
import soak

STEADY = {
    "rss_bytes": 40 << 20,
    "objects": 40_000,
    "descriptors": 7,
    "threads": 4,
    "us_per_call": 60.0,
    "stored_bytes": 1 << 20,
}


def samples(**growth: float) -> list[dict[str, float]]:
    """Samples of a million calls; what grows, grows by that much per call."""
    calls = [(number + 1) * 1_000_000 // soak.SAMPLES for number in range(soak.SAMPLES)]
    return [
        {"done": done, **{key: value + growth.get(key, 0) * done for key, value in STEADY.items()}} for done in calls
    ]


def missed(found: list[dict[str, float]]) -> set[str]:
    return {
        name.removeprefix("calls: ")
        for name, figure in soak.figures_of("calls", found).items()
        if figure.get("judged", figure["value"]) > figure.get("limit", float("inf"))
    }


def test_a_process_that_holds_its_size_passes():
    assert missed(samples()) == set()


@pytest.mark.parametrize(
    ("key", "per_call", "figure"),
    [
        ("rss_bytes", 56, "rss_bytes per call"),
        ("objects", 0.01, "objects per call"),
        ("descriptors", 0.0001, "descriptors more in the last half"),
        ("threads", 0.0001, "threads more in the last half"),
        ("us_per_call", 0.0001, "share by which one became dearer"),
        ("stored_bytes", 100, "bytes in the store"),
    ],
)
def test_what_grows_with_the_calls_is_named(key, per_call, figure):
    assert figure in missed(samples(**{key: per_call}))


def test_what_grew_in_the_first_half_only_is_no_leak():
    found = samples()
    for sample in found[: len(found) // 2]:
        sample["rss_bytes"] -= 20 << 20
    assert missed(found) == set()


def test_noise_that_could_hide_a_leak_is_a_failure():
    found = samples()
    for number, sample in enumerate(found):
        sample["rss_bytes"] += (number % 2) * (60 << 20)
    assert missed(found) == {"rss_bytes per call that noise could hide"}
