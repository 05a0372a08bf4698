"""Ranks in little room, and the text of a group."""

from __future__ import annotations

import random

import pytest

from otel_rl.flight_recorder.reader import MOST_RANKS
from otel_rl.ranks.model.groups import Group, group_of
from otel_rl.ranks.model.rank_sets import RankSet


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([5], "5"),
        ([0, 1], "0-1"),
        ([0, 2], "0,2"),
        (range(0, 48, 2), "0-46/2"),
        ([0, 3, 4, 5], "0,3-5"),
        ([0, 8, 16, 24, 25, 26], "0-24/8,25-26"),
        ([7, 1, 4, 1], "1-7/3"),
    ],
)
def test_ranks_are_written_as_ranges_with_strides(ranks, text):
    assert str(RankSet.of(ranks)) == text
    assert RankSet.parse(text) == RankSet.of(ranks)


def test_what_is_written_is_read_again():
    for count in range(1, 60):
        ranks = sorted(random.sample(range(60), count))
        found = RankSet.parse(str(RankSet.of(ranks)))
        assert (list(found), len(found)) == (ranks, count)
        assert [rank in found for rank in range(60)] == [rank in ranks for rank in range(60)]


@pytest.mark.parametrize(
    "text", ["", "?", "a", "1-", "3-1", "0-4/0", "0-4,2", "1,1", f"0-{MOST_RANKS + 1}", "0-99999999999", "٣", "-1"]
)
def test_a_text_that_is_no_set_of_ranks_is_none(text):
    assert RankSet.parse(text) is None


def test_a_group_that_is_made_again_is_another_one_with_the_same_first():
    first = Group.of("0", "default_pg", range(8))
    third = Group.of("0", "default_pg", range(8), 3)

    assert (first, third) == ("0\tdefault_pg\t0-7", "0\tdefault_pg\t0-7\t3")
    assert (third.generation, third.first, first.first) == (3, first, first)
    assert (first.words, third.words) == ("default_pg", "default_pg (made for the 3rd time)")


def test_of_ranks_without_room_their_number_is_kept():
    group = group_of(Group.of("5", "undefined", random.sample(range(5000), 1000), room=56))

    assert (group.members, group.size, group.words) == (None, 1000, "5")


def test_a_group_of_unknown_ranks_has_no_size():
    assert group_of("5\tmesh\t?").size is None
    assert group_of("5").members is None
