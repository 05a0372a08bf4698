"""Keys in MLflow's alphabet."""

from __future__ import annotations

import posixpath
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_rl.trackers.mlflow import names

TAKEN = re.compile(r"[\w/.\- :]+")


@pytest.mark.parametrize("key", ["loss", "train/loss", "rewards/a b/mean", "a-b.c_d", "Verlust/größe"])
def test_a_key_that_mlflow_takes_stays_as_it_is(key):
    assert names.clean(key) == key


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("pass@1", "pass_1"),
        ("a[0]", "a_0_"),
        ("/a//b/", "a/b"),
        ("../a/./b", "__/a/_/b"),
        ("..a", "_.a"),
        ("", "_"),
        ("a:b", "a_b"),
    ],
)
def test_what_mlflow_refuses_is_replaced(key, name):
    assert names.clean(key) == name


@given(st.text(max_size=600))
def test_every_name_is_one_that_mlflow_takes(key):
    name = names.clean(key)
    assert TAKEN.fullmatch(name)
    assert len(name) <= names.LONGEST
    assert posixpath.normpath(name) == name != "."
    assert not name.startswith(("..", "/"))


def test_two_keys_never_share_a_name():
    mapped = names.Names()
    keys = ["pass@1", "pass_1", "pass#1", "x" * 300, "x" * 301]
    found = [mapped.of(key) for key in keys]
    assert len(set(found)) == len(keys)
    assert [mapped.of(key) for key in keys] == found
    assert all(TAKEN.fullmatch(name) and len(name) <= names.LONGEST for name in found)
