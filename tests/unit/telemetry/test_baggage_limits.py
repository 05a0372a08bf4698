"""How much baggage a request gets: what the W3C has every platform hand on."""

from __future__ import annotations

import logging

import pytest
from carried_baggage import with_baggage
from opentelemetry import baggage, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context, attach, detach, get_current

from otel_rl.core import settings
from otel_rl.telemetry import drops, propagation
from otel_rl.telemetry.correlation import LONGEST_BAGGAGE, MOST_MEMBERS

OURS = {"rl.rollout.id": "r-1", "rl.sample.id": "s-1"}


@pytest.fixture(autouse=True)
def fresh_settings():
    settings.reset()
    yield
    settings.reset()


@pytest.fixture
def dropped():
    def number():
        return drops.snapshot().get(("context", "baggage_limit"), 0)

    before = number()
    return lambda: number() - before


def sent(entries, *, others=True):
    """Members of the header that a request gets, in order."""
    header = injected(context_with(entries, Context()), others=others).get("baggage", "")
    return header.split(",") if header else []


def context_with(entries, context):
    for key, value in entries.items():
        context = baggage.set_baggage(key, value, context)
    return context


def injected(context, *, others):
    """Headers that a request gets."""
    token = attach(context)
    headers = {}
    try:
        propagation.inject(headers, "localhost", others=others)
    finally:
        detach(token)
    return headers


def test_ordinary_baggage_is_sent_as_it_is(dropped):
    assert sent({"tenant": "a", **OURS}) == ["tenant=a", "rl.rollout.id=r-1", "rl.sample.id=s-1"]
    assert dropped() == 0


def test_entries_of_ours_beyond_the_number_of_members_are_left_out_and_counted(dropped, caplog):
    theirs = {f"k{number}": "v" for number in range(MOST_MEMBERS - 1)}
    with caplog.at_level(logging.WARNING):
        found = sent({**OURS, **theirs, "rl.mine": "x"})
    assert len(found) == MOST_MEMBERS
    assert found[-1] == "rl.rollout.id=r-1"
    assert dropped() == 2
    assert caplog.records == []


def test_correlation_comes_before_other_entries_of_ours(dropped):
    many = {f"rl.mine.{number}": "x" for number in range(100)}
    found = sent({**many, **OURS}, others=False)
    assert found[:2] == ["rl.rollout.id=r-1", "rl.sample.id=s-1"]
    assert len(found) == MOST_MEMBERS
    assert dropped() == 102 - MOST_MEMBERS


@pytest.mark.parametrize("character", ["x", " ", "é", "\U0001f600"], ids=["plain", "space", "two bytes", "four bytes"])
def test_entries_of_ours_beyond_the_length_are_left_out_and_counted(character, dropped, caplog):
    with caplog.at_level(logging.WARNING):
        found = sent({f"rl.mine.{number}": character * 200 for number in range(60)}, others=False)
    longest = len(found[0]) + 1
    assert sum(map(len, found)) + len(found) - 1 <= LONGEST_BAGGAGE < (len(found) + 1) * longest
    assert dropped() == 60 - len(found) > 0
    assert caplog.records == []


@pytest.mark.parametrize(("second", "fits"), [(4095, True), (4096, False)])
def test_a_header_may_be_exactly_as_long_as_the_limit(second, fits, dropped):
    found = sent({"rl.a": "x" * (4096 - len("rl.a=")), "rl.b": "x" * (second - len("rl.b="))})
    # With the comma between the two.
    assert sum(map(len, found)) + len(found) - 1 == (LONGEST_BAGGAGE if fits else 4096)
    assert dropped() == (0 if fits else 1)


def test_the_programs_own_entries_are_never_left_out_by_us(dropped):
    theirs = {f"k{number}": "v" * 100 for number in range(MOST_MEMBERS)}
    assert sent({**OURS, **theirs}) == [f"{key}={value}" for key, value in theirs.items()]
    assert dropped() == 2


def test_a_long_entry_of_ours_is_no_line_in_the_programs_log(dropped, caplog):
    with caplog.at_level(logging.WARNING):
        assert sent({"rl.mine": "x" * 5000, **OURS}) == ["rl.rollout.id=r-1", "rl.sample.id=s-1"]
    assert caplog.records == []
    assert dropped() == 1


def test_a_full_baggage_costs_a_child_process_no_entry_of_the_program(dropped, caplog):
    context = Context()
    for key, value in {**{f"k{number}": "v" * 100 for number in range(70)}, **OURS}.items():
        context = baggage.set_baggage(key, value, context)
    with caplog.at_level(logging.WARNING):
        environment = propagation.to_environment(context)
        found = baggage.get_all(W3CBaggagePropagator().extract({"baggage": environment["BAGGAGE"]}, Context()))
    assert len(found) == 70
    assert dropped() == 2
    assert caplog.records == []


def test_what_the_limits_leave_out_on_the_wire_is_still_on_the_spans(recorded, dropped):
    from otel_rl.semconv import spans
    from otel_rl.telemetry import Scope

    token = attach(baggage.set_baggage("rl.mine", "x" * 5000))
    try:
        with with_baggage(OURS):
            scope = Scope("test")
            with trace.use_span(scope.start_span(spans.RL_GENERATE), end_on_exit=True):
                propagation.inject({}, "localhost")
    finally:
        detach(token)
    assert recorded.span("rl.generate").attributes["rl.rollout.id"] == "r-1"


def test_an_entry_of_the_program_that_the_propagator_leaves_out_takes_no_room(dropped):
    too_long = {f"big.{number}": "v" * 9000 for number in range(70)}
    assert sent({**too_long, **OURS}) == ["rl.rollout.id=r-1", "rl.sample.id=s-1"]
    assert dropped() == 0


@pytest.fixture
def within_a_span(recorded):
    from otel_rl.semconv import spans
    from otel_rl.telemetry import Scope

    with trace.use_span(Scope("test").start_span(spans.RL_GENERATE)):
        yield


class Unwritable:
    """A value of the program's that is no text, and cannot become one."""

    def __str__(self):
        raise ValueError


@pytest.mark.usefixtures("within_a_span")
@pytest.mark.parametrize(
    ("key", "value"), [(5, "x"), (b"rl.mine", "x"), ("mine", Unwritable())], ids=["number", "bytes", "no text"]
)
@pytest.mark.parametrize("others", [False, True])
def test_no_entry_of_the_program_costs_the_trace_context(key, value, others, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    context = context_with({**OURS, key: value}, get_current())
    headers = injected(context, others=others)
    environment = propagation.to_environment(context)
    assert environment["TRACEPARENT"] == headers["traceparent"]
    if isinstance(value, str):
        member = W3CBaggagePropagator()
        carrier = {}
        member.inject(carrier, context)
        assert environment["BAGGAGE"] == carrier["baggage"]
        assert "rl.rollout.id=r-1" in headers["baggage"]
    elif not others:
        assert headers["baggage"] == "rl.rollout.id=r-1,rl.sample.id=s-1"


@pytest.mark.parametrize("name", ["baggage", "Baggage", "BAGGAGE", b"baggage", b"Baggage"])
def test_a_header_of_the_program_in_any_case_is_the_only_one(name):
    headers = {name: "mine=1"}
    with with_baggage(OURS):
        propagation.inject(headers, "http://localhost")
    assert {key: value for key, value in headers.items() if key.lower() in ("baggage", b"baggage")} == {name: "mine=1"}


def test_a_value_that_cannot_be_encoded_costs_no_trace_context(recorded, monkeypatch):
    from otel_rl.semconv import spans
    from otel_rl.telemetry import Scope

    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    token = attach(baggage.set_baggage("rl.mine", "\ud83d" * 1000))
    headers = {}
    try:
        with trace.use_span(Scope("test").start_span(spans.RL_GENERATE)):
            propagation.inject(headers, "localhost")
    finally:
        detach(token)
    assert "traceparent" in headers


def test_a_header_whose_name_is_no_text_costs_nothing():
    headers = {b"Authorization": b"Bearer k"}
    with with_baggage(OURS):
        propagation.inject(headers, "http://localhost")
    assert headers["baggage"] == "rl.rollout.id=r-1,rl.sample.id=s-1"
