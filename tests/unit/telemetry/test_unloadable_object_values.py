"""Records keep what they can where the values of other objects cannot be looked at: nothing more can be imported."""

from __future__ import annotations

import enum
import os
import pathlib
import signal
import sys

import pytest

import otel_rl
from otel_rl.core import guard, instrumentor_status
from otel_rl.telemetry import attribute_values

MODULE = "otel_rl.telemetry.object_values"


class Kind(enum.Enum):
    FIRST = "first"


class Finder:
    """Calls something where the module is looked for; keeps count."""

    def __init__(self, call):
        self.call, self.asked = call, 0

    def find_spec(self, name, *_):
        if name == MODULE:
            self.asked += 1
            self.call()


@pytest.fixture
def at_import(monkeypatch):
    """Let something happen when the module is loaded, which it has not been yet."""
    attribute_values._readers.cache_clear()
    monkeypatch.setattr(instrumentor_status, "_outcomes", {})
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    monkeypatch.delattr(sys.modules["otel_rl.telemetry"], "object_values", raising=False)

    def put(call):
        finder = Finder(call)
        monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
        return finder

    yield put
    attribute_values._readers.cache_clear()


def _refuse():
    raise PermissionError("an audit hook of the program")


def test_spans_events_and_counters_are_recorded_with_the_class_of_the_value(recorded, at_import, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "")
    monkeypatch.setattr(guard, "_errors", {})
    finder = at_import(_refuse)
    with otel_rl.span(
        "mine", kind=Kind.FIRST, where=pathlib.PurePosixPath("/x"), several=[pathlib.PurePosixPath("/y")]
    ):
        otel_rl.event("my.event", {"where": pathlib.PurePosixPath("/x")})
    otel_rl.count("my.count", 1, disk=Kind.FIRST)
    (span,) = (span for span in recorded.spans if span.name == "mine")
    found = {name: value for name, value in span.attributes.items() if name in ("kind", "where", "several")}
    assert found == {"kind": "first", "where": "<PurePosixPath>", "several": ("<PurePosixPath>",)}
    assert guard.error_counts() == {}
    assert finder.asked == 1
    assert instrumentor_status.snapshot()["object_values"]["state"] == instrumentor_status.SKIPPED


def test_values_that_need_no_further_module_are_as_ever(at_import):
    finder = at_import(_refuse)
    assert attribute_values.plain([Kind.FIRST, b"bytes", True, {"a": 1}]) == ["first", "bytes", True, {"a": 1}]
    assert finder.asked == 0


class TimeoutOfProgramError(Exception):
    pass


def _time_out(*_: object) -> None:
    raise TimeoutOfProgramError


class Slow(dict):
    """Its items take until the program's timeout."""

    def items(self):
        os.kill(os.getpid(), signal.SIGALRM)
        return super().items()


@pytest.fixture
def timeout():
    before = signal.signal(signal.SIGALRM, _time_out)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("timeout")
def test_a_timeout_of_the_program_while_the_module_is_loaded_reaches_the_program(at_import):
    at_import(lambda: os.kill(os.getpid(), signal.SIGALRM))
    with pytest.raises(TimeoutOfProgramError):
        attribute_values.plain(pathlib.PurePosixPath("/x"))


@pytest.mark.usefixtures("timeout")
def test_a_timeout_of_the_program_while_a_value_is_looked_at_reaches_the_program():
    with pytest.raises(TimeoutOfProgramError):
        attribute_values.plain(Slow(a=1))
