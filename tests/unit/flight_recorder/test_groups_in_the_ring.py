"""The text of a process group in the ring: which group it is, and the how manieth of its name and ranks."""

from __future__ import annotations

from otel_rl.collectives.flight_records import FlightRecords
from otel_rl.flight_recorder import layout
from otel_rl.instrumentors.torch_distributed import group_names

ALL = "0\tdefault_pg\t0-2"


class _ProcessGroup:
    group_name, group_desc = "0", "default_pg"

    def __init__(self, ranks=(0, 1, 2)) -> None:
        self.ranks = ranks


class _Torch:
    @staticmethod
    def get_process_group_ranks(group):
        return group.ranks


def _records() -> FlightRecords:
    return FlightRecords(lambda group: group_names.describe(_Torch, group), lambda run, *args: run(*args))


def test_a_group_is_counted_when_it_is_made_also_where_it_is_used_for_nothing(flight):
    records = _records()
    groups = [_ProcessGroup() for _ in range(3)]
    for group in groups:
        records.group_made(group)
    records.known("all_reduce", groups[2])
    records.known("all_reduce", groups[0])

    assert {f"{ALL}\t3", ALL} <= flight.ring._groups.known.keys()
    assert f"{ALL}\t2" not in flight.ring._groups.known


def test_a_group_that_was_made_too_often_shares_one_name_with_all_others(flight, monkeypatch):
    monkeypatch.setattr(layout, "MOST_GENERATIONS", 2)
    records, groups = _records(), [_ProcessGroup() for _ in range(3)]
    for group in groups:
        records.known("all_reduce", group)
    assert layout.OTHER_TEXT in {records._group(group).text for group in groups}


def test_the_text_of_a_group_fits_its_place_whatever_the_names():
    group = _ProcessGroup([7, 1, 900, 12, 77777])
    group.group_name, group.group_desc = "\N{SNOWMAN}" * 60, "a\ttab" * 9
    described = group_names.describe(_Torch, group)

    assert len(f"{described}\t{layout.MOST_GENERATIONS}".encode()) <= layout.GROUPS.text.size - 2
    assert described.description.startswith("a tab")
    assert list(described.members) == sorted(group.ranks)
