"""How long the end of a process may take: the time that is given to each wait of it."""

from __future__ import annotations

import os
import threading
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from otel_rl.ending import exit as process_exit
from otel_rl.ending import termination
from otel_rl.ending.termination import TerminationWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOW = 1000.0


class Clock:
    """Stands still, or passes with each look."""

    def __init__(self, passes: float = 0.0) -> None:
        self.now, self.passes = NOW, passes

    def monotonic(self) -> float:
        self.now += self.passes
        return self.now


@pytest.fixture
def deliver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """End with this timeout of the exit: the times that the deliveries to network and files have from now on."""

    def deliver(timeout: float, end: Callable[[], object] = process_exit.deliver) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []

        class Delivery:
            def __init__(self, _: object, deadline: float, *__: object, **options: Any) -> None:
                times = {"deadline": deadline, "latest": options["latest"], "longest": options.get("longest", NOW)}
                made.append({name: round(time - NOW, 6) for name, time in times.items()})

            def wait(self) -> None:
                """Take no time."""

        set_by_user = SimpleNamespace(exit_timeout=timeout)
        telemetry = SimpleNamespace(
            gate=SimpleNamespace(force_open=lambda: None),
            network=SimpleNamespace(needed=True),
            files=SimpleNamespace(needed=True),
            undelivered=None,
        )
        monkeypatch.setattr(process_exit, "time", Clock())
        monkeypatch.setattr(process_exit, "LastDelivery", Delivery)
        monkeypatch.setattr(process_exit, "settings", SimpleNamespace(current=lambda: set_by_user))
        monkeypatch.setattr(process_exit, "_telemetry", telemetry)
        monkeypatch.setattr(process_exit, "_summarized", True)
        monkeypatch.setattr(process_exit, "_watch", None)
        for silent, name in (
            (process_exit.event_loops, "end"),
            (process_exit.watchdog, "end"),
            (process_exit.outage, "be_silent"),
            (process_exit.lifecycle, "run_shutdown_callbacks"),
            (process_exit.run_span, "stopped_by"),
        ):
            monkeypatch.setattr(silent, name, lambda *_: None)
        end()
        return made

    return deliver


def test_the_network_has_the_timeout_and_the_files_half_a_second_more(deliver: Callable[..., Any]) -> None:
    network, files = deliver(1.5)
    assert (network["deadline"], files["deadline"]) == (1.5, 2.0)


def test_an_exporter_that_is_being_imported_has_twice_the_timeout_more(deliver: Callable[..., Any]) -> None:
    assert [one["latest"] for one in deliver(1.5)] == [4.5, 4.5]


def test_files_that_make_progress_have_ten_times_the_timeout(deliver: Callable[..., Any]) -> None:
    assert deliver(1.5)[1]["longest"] == 2.0 + 15.0


def test_with_a_timeout_of_nought_nothing_waits(deliver: Callable[..., Any]) -> None:
    assert deliver(0.0) == [{"deadline": 0.0, "latest": 0.0, "longest": 0.0}] * 2


@pytest.mark.parametrize(("timeout", "given"), [(60.0, 1.8), (0.5, 0.5)])
def test_after_sigterm_the_delivery_has_less_than_two_seconds_also_for_an_import(
    deliver: Callable[..., Any], timeout: float, given: float
) -> None:
    end = partial(process_exit._deliver_before_termination, termination.DELIVERY)
    network, files = deliver(timeout, end)
    assert (network["deadline"], network["latest"]) == (given, given)
    assert files["latest"] == given
    assert files["deadline"] == given + 0.5


class Watched:
    """A watch whose delivery does not come to its end by itself."""

    def __init__(self) -> None:
        self.given: list[float] = []
        self.ends: list[str] = []
        self.released = threading.Event()
        self.watch = TerminationWatch(
            object(), self._deliver, lambda: None, lambda: self.ends.append("by the default action")
        )

    def _deliver(self, seconds: float) -> bool:
        self.given.append(seconds)
        return self.released.wait(60)


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.released.set()


def test_a_delivery_that_hangs_is_given_up_two_seconds_after_the_signal(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(passes=0.5)
    monkeypatch.setattr(termination, "time", clock)
    watched.watch._end_after_delivery()
    assert watched.ends == ["by the default action"]
    # Of looks at the clock, each half a second later than the one before, the first says when the signal came.
    assert clock.now - (NOW + 0.5) == termination.LIMIT == 2.0
    assert not watched.released.is_set()


def test_a_delivery_that_comes_to_its_end_ends_the_process_before(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(termination, "time", Clock())
    watched.released.set()
    watched.watch._end_after_delivery()
    assert watched.ends == ["by the default action"]
    assert watched.given == [termination.DELIVERY]
    assert termination.DELIVERY < termination.LIMIT


def test_a_main_thread_that_waits_for_the_delivery_ends_the_process_itself_after_a_while(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    reading, writing = os.pipe()
    monkeypatch.setattr(watched.watch, "_pipe", (reading, writing))
    monkeypatch.setattr(watched.watch, "_never", SimpleNamespace(wait=waits.append))
    watched.watch.handle(is_exiting=False)
    os.close(reading)
    os.close(writing)
    assert waits == [termination.LIMIT + 0.5]
    assert watched.ends == ["by the default action"]
