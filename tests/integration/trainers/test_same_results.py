"""A seeded program computes and prints the same whether it is watched or not."""

from __future__ import annotations

import ast

import pytest
from seeded_program import TIMES


def printed_values(stdout):
    """The dictionaries that the trainer prints, without what depends on the clock."""
    lines = [ast.literal_eval(line) for line in stdout.splitlines() if line.startswith("{")]
    return [{key: value for key, value in line.items() if not any(word in key for word in TIMES)} for line in lines]


@pytest.mark.parametrize("what", ["history", "weights", "random", "numpy", "torch", "callbacks"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_watched_rank_ends_with_the_same(watched_run, plain_run, rank, what):
    assert watched_run.results[rank][what] == plain_run.results[rank][what]


def test_a_watched_program_prints_the_same(watched_run, plain_run):
    values = printed_values(watched_run.stdout)

    assert len(values) > 4
    assert values == printed_values(plain_run.stdout)
    assert [line for line in watched_run.stdout.splitlines() if not line.startswith("{")] == [
        line for line in plain_run.stdout.splitlines() if not line.startswith("{")
    ]


def said_by_us(stderr):
    """Our lines; a warning of a library may print a path of the checkout, whose name may be ours."""
    return [line for line in stderr.splitlines() if line.startswith(("otel-rl", "Configuration of"))]


def test_a_watched_program_says_one_line_more(watched_run, plain_run):
    ours = said_by_us(watched_run.stderr)

    assert len(ours) == 1, ours
    assert ours[0].startswith("otel-rl: recorded")
    assert said_by_us(plain_run.stderr) == []
