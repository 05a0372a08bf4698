"""The table of keys that trainers log, and their groups."""

from __future__ import annotations

from collections import Counter

import pytest

from instrumentation import metric_keys_page
from otel_rl.health.rule_table import INPUTS
from otel_rl.training.key_categories import OTHER, category_of
from otel_rl.training.metric_keys import CANONICAL

ROWS = metric_keys_page.keys()


def test_the_page_and_the_table_of_the_pack_are_current():
    assert metric_keys_page.main(["--check"]) == 0


def test_every_metric_is_one_of_the_registry_and_every_system_has_a_column():
    assert {row.metric for row in ROWS if row.metric} <= metric_keys_page.DEFINITIONS.keys()
    assert {row.system for row in ROWS} == metric_keys_page.SYSTEMS.keys() | metric_keys_page.VARIANTS.keys()


def test_a_system_names_a_key_once_and_a_metric_by_one_key():
    assert [pair for pair, number in Counter((row.system, row.key) for row in ROWS).items() if number > 1] == []
    of_systems = Counter((row.system, row.metric) for row in ROWS if row.metric and row.system != "own loop")
    assert [pair for pair, number in of_systems.items() if number > 1] == []


def test_a_key_is_the_same_metric_for_all_systems_and_for_the_health_rules():
    by_key = {(row.key, row.metric) for row in ROWS if row.metric}
    assert len(by_key) == len({key for key, _ in by_key})
    for item in INPUTS.values():
        for key in item.keys:
            if item.metric and key in CANONICAL:
                assert CANONICAL[key].name == item.metric, key


def test_the_88_keys_of_model_studio_are_marked_as_reconstructed():
    assert {row.source for row in ROWS if row.system == "modelstudio"} == {"reconstructed"}
    assert sum(row.system == "modelstudio" for row in ROWS) == 88


@pytest.mark.parametrize(
    ("key", "category"),
    [
        ("critic/rewards/mean", "reward"),
        ("train/loss", "learning"),
        ("actor/grad_norm", "learning"),
        ("actor/perf/max_memory_allocated_gb", "throughput"),
        ("timing_s/gen", "time"),
        ("response_length/mean", "rollout"),
        ("vllm/spec_acceptance_rate", "engine"),
        ("eval/accuracy", "evaluation"),
        ("values/mean", "learning"),
        ("torch/loss", "learning"),
        ("torch/batch_size", "throughput"),
        ("something", OTHER),
    ],
)
def test_the_longest_beginning_of_a_key_gives_its_group(key, category):
    assert category_of(key) == category


def test_most_known_keys_have_a_group():
    assert sum(category_of(row.key) == OTHER for row in ROWS) < 0.05 * len(ROWS)
