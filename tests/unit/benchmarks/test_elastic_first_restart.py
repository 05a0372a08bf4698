"""What three ports say of the first restart of a job."""

from __future__ import annotations

import pytest
from elastic_first_restart import expected

# In the order of the network: 0x0180 < 0x0280 < 0x0380.
LOW, MIDDLE, HIGH = 0x8001, 0x8002, 0x8003


def events(left: int, early: int, late: int, apart: float = 0.5) -> list[dict[str, object]]:
    """Rank 1 joins first; `left` is the port that rank 0 had before."""

    def event(attempt, rank, name, **more):
        return {"attempt": attempt, "rank": rank, "event": name, "time": 0.0, **more}

    return [
        event(0, 0, "listens", port=left),
        event(1, 1, "listens", port=early),
        event(1, 0, "listens", port=late),
        event(1, 1, "joining"),
        {**event(1, 0, "joining"), "time": apart},
    ]


@pytest.mark.parametrize(
    ("left", "early", "late", "outcome"),
    [
        (LOW, MIDDLE, HIGH, "refused"),
        (LOW, HIGH, MIDDLE, "refused"),
        (MIDDLE, HIGH, LOW, "refused"),
        (HIGH, LOW, MIDDLE, "recovered"),
        (MIDDLE, LOW, HIGH, "recovered"),
        (HIGH, MIDDLE, LOW, "hung"),
    ],
)
def test_three_orders_of_six_are_refused_one_hangs(left, early, late, outcome):
    assert expected(events(left, early, late)) == outcome


def test_ports_say_nothing_of_ranks_that_join_together_or_have_no_port_yet():
    assert expected(events(LOW, MIDDLE, HIGH, apart=0.001)) is None
    assert expected(events(LOW, MIDDLE, HIGH)[1:]) is None
    assert expected(events(LOW, MIDDLE, HIGH)[:-1]) is None
