"""Groups that are destroyed and made again, whose numbers begin again, and groups of many ranks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from written_ranks import ALL, Ranks

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.ring import create
from otel_rl.instrumentors.torch_distributed import group_names
from otel_rl.ranks.postmortem import examine, text

AGAIN = f"{ALL}\t2"


@pytest.fixture
def ranks(tmp_path) -> Ranks:
    return Ranks(tmp_path)


def _pass(ranks, numbers, group, of=range(3)):
    for rank in of:
        for number in range(1, numbers + 1):
            ranks.passed(rank, number, group)


def _names(states) -> list[int]:
    return [one.ring.rank for one in states]


def test_the_rank_that_did_not_enter_a_collective_of_the_group_made_again_is_named(ranks):
    _pass(ranks, 50, ALL)
    _pass(ranks, 3, AGAIN)
    ranks.waits(0, 4, AGAIN)
    ranks.waits(2, 4, AGAIN)
    found = ranks.examine()

    assert _names(found.waits.origins) == [1]
    assert text.waits(found)[0] == (
        "rank 0 waits in all_reduce number 4 of group default_pg (made for the 2nd time), which rank 1 did not enter"
    )
    assert text.as_json(found)["waits"][0]["group_generation"] == 2


def test_a_rank_that_has_not_used_the_group_made_again_did_not_enter_it(ranks):
    _pass(ranks, 50, ALL)
    ranks.waits(0, 1, AGAIN)
    ranks.waits(2, 1, AGAIN)
    assert _names(ranks.examine().waits.origins) == [1]


def test_a_process_that_was_replaced_counts_anew_and_is_not_blamed(ranks):
    """Its first group is the second one of the others."""
    _pass(ranks, 5, ALL, (0, 2))
    _pass(ranks, 3, AGAIN, (0, 2))
    ranks.waits(1, 3)
    ranks.waits(0, 3, AGAIN)
    ranks.waits(2, 3, AGAIN)
    found = ranks.examine()

    assert found.waits.waits == []
    assert "whether rank 1 entered it is not known: the process waits in an earlier group" in " ".join(
        text.unknown(found)
    )
    assert "whether ranks 0, 2 entered it is not known: the group was made again there" in " ".join(text.unknown(found))


def test_a_process_that_used_no_earlier_group_may_count_otherwise(ranks):
    _pass(ranks, 5, ALL, (0, 2))
    ranks.waits(0, 1, AGAIN)
    found = ranks.examine()

    assert _names(wait.missing for wait in found.waits.waits) == [2]
    assert "whether rank 1 entered it is not known: the process used none of the earlier groups" in " ".join(
        text.unknown(found)
    )


class _Torch:
    @staticmethod
    def get_process_group_ranks(group):
        return group.ranks


def _without_order(ranks, number) -> frozenset[int]:
    return frozenset(sorted(ranks, key=lambda rank: rank * rank % 1_000_003 * 7 % 1009)[:number])


def _job_of(folder, ranks, group, with_rings, late):
    """``ranks`` run; those of ``group`` have passed two collectives, and all but ``late`` wait in the third."""
    world = group_names.describe(_Torch, SimpleNamespace(group_name="0", group_desc="default_pg", ranks=range(ranks)))
    part = group_names.describe(_Torch, SimpleNamespace(group_name="5", group_desc="mesh_dp", ranks=group))
    rings, handles = [], []
    for rank in with_rings:
        ring = create(folder, f"otel-rl-run-{rank}")
        ring.identify("run", "0.0.0", f"node{rank}", (rank, ranks, 0))
        for text_of_group in (world, *([part] if rank in group else [])):
            for number in (1, 2):
                ring.end(ring.begin(layout.COLLECTIVE, "all_reduce", 0, text_of_group, number))
        if rank in group and rank != late:
            handles.append(ring.begin(layout.WAIT, "all_reduce", 0, part, 3))
        rings.append(ring)
    return examine(folder, folder)


def test_of_48_ranks_only_the_late_one_of_every_second_is_named(tmp_path):
    found = _job_of(tmp_path, 48, range(0, 48, 2), range(48), late=2)

    assert _names(found.waits.origins) == [2]
    assert {wait.missing.ring.rank for wait in found.waits.waits} == {2}
    assert found.waits.unknown == []


def test_of_1000_ranks_with_a_stride_only_the_late_one_is_named(tmp_path):
    # The rings of five nodes of eight ranks.
    found = _job_of(tmp_path, 4000, range(1, 4000, 4), range(960, 1000), late=977)

    assert _names(found.waits.origins) == [977]
    assert {wait.missing.ring.rank for wait in found.waits.waits} == {977}
    assert found.waits.unknown == []


def test_of_1000_ranks_without_order_those_that_never_used_the_group_are_not_known_to_be_missing(tmp_path):
    group = _without_order(range(2000), 1000)
    with_rings = range(40)
    late = min(group)
    found = _job_of(tmp_path, 2000, group, with_rings, late)

    assert _names(found.waits.origins) == [late]
    assert {wait.missing.ring.rank for wait in found.waits.waits} == {late}
    assert {wait.other.ring.rank for wait in found.waits.unknown} == set(with_rings) - group
    assert "the group's list of ranks had no room in the ring" in " ".join(text.unknown(found))


def test_where_all_members_of_a_group_without_order_are_seen_nothing_is_unknown(tmp_path):
    group = _without_order(range(100_000, 999_999), 16) | {1, 2, 5}
    found = _job_of(tmp_path, 1 << 20, group, [*sorted(group), 3, 4, 6], late=5)

    assert found.ranks[0].unfinished[0].collective.group.members is None
    assert _names(found.waits.origins) == [5]
    assert found.waits.unknown == []
