"""What a browser that was away gets, and when the page is made anew."""

from __future__ import annotations

from otel_rl.live.event_log import EventLog
from otel_rl.live.pace import Pace


def test_a_browser_gets_the_events_after_its_last_one() -> None:
    log = EventLog()
    for number in range(1, 4):
        log.append("message", b"%d" % number)
    assert [event.data for event in log.since(1) or ()] == [b"2", b"3"]
    assert log.since(3) == []


def test_what_is_not_known_any_more_is_not_made_up() -> None:
    log = EventLog()
    for _ in range(100):
        log.append("message", b"")
    assert log.since(1) is None
    assert log.since(101) is None
    assert len(log.since(36) or ()) == 64


def test_events_are_bounded_in_bytes_and_the_last_one_is_kept() -> None:
    log = EventLog()
    log.append("message", b"x" * (6 << 20))
    log.append("message", b"y" * (6 << 20))
    assert log.since(0) is None
    assert [event.data[:1] for event in log.since(1) or ()] == [b"y"]


def _pace(cpu: float) -> Pace:
    pace = Pace()
    pace.rendered(100.0, cpu)
    return pace


def test_nothing_is_rendered_before_something_was_read() -> None:
    assert not _pace(0.01).is_due(200.0, is_urgent=False, is_watched=True)


def test_what_was_read_is_shown_within_2_seconds_and_never_more_often_than_every_2() -> None:
    pace = _pace(0.5)
    pace.has_read(101.0)
    assert not pace.is_due(101.9, is_urgent=True, is_watched=True)
    assert not pace.is_due(102.5, is_urgent=False, is_watched=True)
    assert pace.is_due(103.0, is_urgent=False, is_watched=True)


def test_a_cheap_page_is_made_at_once_and_an_urgent_one_too() -> None:
    pace = _pace(0.01)
    pace.has_read(102.5)
    assert pace.is_due(102.6, is_urgent=False, is_watched=True)
    assert _pace(0.5).is_due(102.0, is_urgent=True, is_watched=True)


def test_a_page_that_takes_long_takes_a_quarter_of_a_core_at_most() -> None:
    pace = _pace(4.0)
    pace.has_read(101.0)
    assert not pace.is_due(115.0, is_urgent=True, is_watched=True)
    assert pace.is_due(116.0, is_urgent=False, is_watched=True)


def test_without_a_browser_it_is_made_rarely() -> None:
    pace = _pace(0.5)
    pace.has_read(101.0)
    assert not pace.is_due(159.0, is_urgent=False, is_watched=False)
    assert pace.is_due(160.0, is_urgent=False, is_watched=False)


def test_all_of_a_page_is_made_so_rarely_that_it_costs_a_hundredth_of_a_core_and_its_curves_go_on() -> None:
    pace = _pace(0.21)
    for second in range(101, 130, 3):
        pace.has_read(second)
        assert pace.is_due(second + 2, is_urgent=False, is_watched=True)
        assert not pace.is_whole_due(second + 2) or second + 2 >= 130
        pace.rendered(second + 2, 0.02, is_whole=False)
    assert not pace.shows_all
    assert pace.is_whole_due(130.1)


def test_what_only_the_curves_show_gets_its_page_although_nothing_is_read_any_more() -> None:
    pace = _pace(0.07)
    pace.has_read(101.0)
    pace.rendered(103.0, 0.02, is_whole=False)
    assert not pace.is_due(109.9, is_urgent=False, is_watched=True)
    assert pace.is_due(110.1, is_urgent=False, is_watched=True)
    pace.rendered(110.1, 0.07)
    assert pace.shows_all
    assert not pace.is_due(300.0, is_urgent=False, is_watched=True)


def test_of_a_page_that_takes_long_all_is_made_every_minute() -> None:
    pace = _pace(6.0)
    pace.has_read(101.0)
    assert not pace.is_whole_due(159.9)
    assert pace.is_whole_due(160.0)


def test_a_page_that_could_not_be_made_has_its_pause_before_the_next_try() -> None:
    pace = Pace()
    pace.has_read(100.0)
    pace.failed(101.0, 4.0)
    assert not pace.is_due(116.9, is_urgent=True, is_watched=True)
    assert pace.is_due(117.0, is_urgent=False, is_watched=True)
