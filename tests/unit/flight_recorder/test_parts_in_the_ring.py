"""Parts of phases in the flight recorder: they share handles, one after the other."""

from __future__ import annotations

import pytest

from otel_rl.flight_recorder.reader import read
from otel_rl.semconv import spans
from otel_rl.telemetry import Scope
from otel_rl.training.parts import Part
from otel_rl.training.trainer_loop import TrainerLoop

_scope = Scope("test")


def test_parts_of_one_kind_have_one_handle_of_the_flight_recorder_after_the_other(recorded, flight):
    loop, handles = TrainerLoop().enter(), []
    for number in (1, 2):
        loop.begin_step(number, _scope)
        for _ in range(3):
            with loop.phase(spans.RL_FORWARD, _scope):
                handles.append(id(loop.open_phases["rl.forward"]._flight))
    loop.leave()

    assert len(set(handles)) == 1
    assert [one.name for one in read(flight.ring.path).records].count("forward") == 6


def test_parts_of_one_kind_that_are_open_at_once_have_a_handle_each(recorded, flight):
    loop, handles = TrainerLoop().enter(), {}
    loop.begin_step(1, _scope)
    Part(spans.RL_FORWARD, _scope, loop.step, has_span=False, handles=handles).close()
    first, second = (Part(spans.RL_FORWARD, _scope, loop.step, has_span=False, handles=handles) for _ in range(2))
    assert [one.name for one in read(flight.ring.path).open].count("forward") == 2
    first.close()
    second.close()
    loop.leave()

    assert read(flight.ring.path).open == []
    assert len(handles) == 1


@pytest.mark.parametrize("name", ["end", "begin_again"])
def test_a_part_that_a_signal_handler_interrupts_in_the_ring_is_not_open_there_any_more(
    recorded, flight, monkeypatch, name
):
    loop = TrainerLoop().enter()
    loop.begin_step(1, _scope)
    with loop.phase(spans.RL_FORWARD, _scope):
        pass
    whole = getattr(flight, name)

    def interrupted(*given):
        if name == "begin_again":
            whole(*given)
        raise KeyboardInterrupt

    def work():
        with loop.phase(spans.RL_FORWARD, _scope):
            monkeypatch.setattr(flight, name, whole if name == "begin_again" else interrupted)

    if name == "begin_again":
        monkeypatch.setattr(flight, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        work()
    monkeypatch.setattr(flight, name, whole)

    assert "forward" not in [one.name for one in read(flight.ring.path).open]
    loop.leave()
