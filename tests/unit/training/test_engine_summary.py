"""What engines did in a step is on the span of that step, with means over the requests that have times."""

from __future__ import annotations

import threading

import otel_rl
from otel_rl.semconv import attributes
from otel_rl.training import engine_summary

REQUESTS, QUEUE = attributes.RL_ENGINE_REQUESTS, attributes.RL_ENGINE_QUEUE_TIME


def test_calls_of_a_step_are_summed_up_on_its_span(recorded):
    with otel_rl.step(1):
        engine_summary.add({REQUESTS: 2}, {QUEUE: [1.0, 3.0]})
        with otel_rl.rollout("r"):
            engine_summary.add({REQUESTS: 1}, {QUEUE: [5.0]})
        engine_summary.add({REQUESTS: 4}, {})
    with otel_rl.step(2):
        pass
    first, second = (span.attributes for span in recorded.spans if span.name == "rl.rank.step")
    assert (first[REQUESTS], first[QUEUE]) == (7, 3.0)
    assert REQUESTS not in second


def test_calls_outside_of_any_step_are_kept_nowhere(recorded):
    engine_summary.add({REQUESTS: 2}, {})
    with otel_rl.step(1):
        pass
    assert REQUESTS not in recorded.span("rl.rank.step").attributes


def test_a_step_of_very_many_calls_keeps_few_of_them_and_their_sum(recorded):
    def calls():
        for _ in range(1500):
            engine_summary.add({REQUESTS: 1}, {QUEUE: [0.5]})

    with otel_rl.step(1):
        threads = [threading.Thread(target=calls) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        [kept] = engine_summary._calls.values()
        assert len(kept) <= engine_summary._MAXIMUM_CALLS + len(threads)
    found = recorded.span("rl.rank.step").attributes
    assert (found[REQUESTS], found[QUEUE]) == (6000, 0.5)
