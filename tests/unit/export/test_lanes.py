"""On a lane, spans lie inside of each other or one after the other; none of them is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_rl.export.lanes import THREADS, Lanes

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40), st.integers(-1, 30)), max_size=150)


def _in_order(drawn: list[tuple[int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Spans as (key, parent, start, stop), in the order of the export."""
    spans = [(key, parent, start, start + length) for key, (start, length, parent) in enumerate(drawn)]
    return sorted(spans, key=lambda span: (span[2], -span[3], -span[0]))


@given(INTERVALS)
def test_no_span_begins_inside_of_another_of_its_lane_and_ends_after_it(drawn):
    lanes, placed = Lanes(), {}
    for key, parent, start, stop in _in_order(drawn):
        lane, _ = lanes.place(key, parent if parent >= 0 else None, start, stop)
        placed.setdefault(lane, []).append((start, stop))
    for lane, spans in placed.items():
        for number, (start, stop) in enumerate(spans):
            for later_start, later_stop in spans[number + 1 :]:
                inside = later_start < stop and start < later_stop
                assert not inside or (later_stop <= stop and lane < THREADS), (lane, spans)


def test_a_child_lies_on_the_lane_of_its_parent():
    lanes = Lanes()
    assert lanes.place(1, None, 0, 100) == (0, None)
    assert lanes.place(2, None, 5, 90) == (1, None)
    assert lanes.place(3, 2, 10, 20) == (1, None)
    assert lanes.place(4, 1, 10, 20) == (0, None)


def test_a_span_is_not_put_into_one_that_is_not_its_parent():
    lanes = Lanes()
    lanes.place(1, None, 0, 100)
    assert lanes.place(2, 9, 10, 20) == (1, None)


def test_a_child_that_overlaps_its_sibling_says_where_its_parent_is():
    lanes = Lanes()
    lanes.place(1, None, 0, 100)
    lanes.place(2, 1, 10, 50)
    lane, parent = lanes.place(3, 1, 20, 60)
    assert (lane, parent.key, parent.lane, parent.start) == (1, 1, 0, 0)


def test_more_than_the_lanes_of_threads_are_asynchronous_and_used_again():
    lanes = Lanes()
    numbers = [lanes.place(key, None, key, 1000)[0] for key in range(THREADS + 5)]
    assert numbers == list(range(THREADS + 5))
    again = [lanes.place(key, None, 2000 + key, 3000)[0] for key in range(THREADS + 5)]
    assert sorted(again) == list(range(THREADS + 5))
