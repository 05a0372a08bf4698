"""Errors in the program's own log: each place once, by type and place, with how many there were."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from otel_rl.pipeline import program_log
from otel_rl.pipeline.program_log import MOST_PLACES, LoggedErrors
from otel_rl.telemetry import deferral, lifecycle


@pytest.fixture
def errors(recorded, monkeypatch):
    for name in ("at_first_record", "before_shutdown", "after_fork_in_child"):
        monkeypatch.setattr(lifecycle, name, lifecycle.Callbacks(name))
    monkeypatch.setattr(lifecycle, "has_recorded", True)
    taker = LoggedErrors()
    handler = logging.Handler(logging.ERROR)
    handler.emit = taker.take
    for name in ("env", "asyncio"):
        logging.getLogger(name).addHandler(handler)
    yield taker
    for name in ("env", "asyncio"):
        logging.getLogger(name).removeHandler(handler)


def _events(recorded):
    deferral.drain_all()
    return [dict(event.attributes) for event in recorded.events("rl.log.error")]


def _log(number=0):
    try:
        int(f"secret {number}")
    except ValueError:
        logging.getLogger("env").exception("sample %d failed", number)


def test_a_place_is_told_when_its_number_has_doubled_and_at_the_end(errors, recorded):
    for number in range(11):
        _log(number)
        deferral.drain_all()
    assert [event["rl.log.records"] for event in _events(recorded)] == [1, 2, 4, 8]
    errors.tell()
    errors.tell()
    assert [event["rl.log.records"] for event in _events(recorded)] == [1, 2, 4, 8, 11]


def test_type_and_place_are_recorded_and_no_text(errors, recorded):
    _log()
    [event] = _events(recorded)
    assert (event["exception.type"], event["rl.log.logger"]) == ("ValueError", "env")
    assert event["code.file.path"].endswith("test_logged_errors.py")
    assert event["code.function.name"] == "_log"
    assert "secret" not in str(event)


def test_the_text_comes_with_content(errors, recorded, monkeypatch):
    monkeypatch.setattr(program_log, "capture_content", lambda: True)
    _log()
    assert _events(recorded)[0]["exception.message"].endswith("'secret 0'")


def test_an_exception_among_the_arguments_has_its_type_too(errors, recorded):
    logging.getLogger("env").error("failed: %r", KeyError("secret"))
    logging.getLogger("env").error("failed")
    assert [event.get("exception.type") for event in _events(recorded)] == ["KeyError", None]


def test_an_exception_in_place_of_the_line_has_its_type_and_no_text_is_made_of_an_object(errors, recorded, monkeypatch):
    class Lazy:
        def __str__(self):
            raise AssertionError

    # The handlers of pytest make one.
    monkeypatch.setattr(logging.getLogger("env"), "propagate", False)
    logging.getLogger("env").error(KeyError("secret"))
    logging.getLogger("env").error(Lazy())
    assert [event.get("exception.type") for event in _events(recorded)] == ["KeyError", None]


def test_the_exception_of_a_task_that_nobody_awaits_is_one_that_was_never_retrieved(errors, recorded):
    async def judge():
        raise ValueError

    async def main():
        asyncio.get_running_loop().create_task(judge())
        await asyncio.sleep(0)

    asyncio.run(main())
    gc.collect()
    [event] = _events(recorded)
    assert (event["exception.type"], event["rl.exception.never_retrieved"]) == ("ValueError", True)
    assert event["code.function.name"].endswith("judge")


def test_the_literal_of_a_line_is_recorded_and_nothing_that_the_program_wrote_into_it(errors, recorded):
    prompt = chr(115) + "ecret"
    logging.getLogger("env").error("no answer to %s after 3 attempts", prompt)
    logging.getLogger("env").error(f"no answer to {prompt}")  # noqa: G004 - as programs do
    logging.getLogger("env").error(f"no answer to {prompt} from %s", "server")  # noqa: G004 - as above
    logging.getLogger("env").error(prompt)
    found = _events(recorded)
    assert [event.get("exception.message") for event in found] == ["no answer to %s after 3 attempts", None, None, None]
    assert "secret" not in str(found)


def test_a_task_that_is_dropped_is_known_by_the_line_of_asyncio_and_not_by_what_it_is(errors, recorded):
    async def secret():
        await asyncio.Future()

    loop = asyncio.new_event_loop()
    task = loop.create_task(secret())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    del task
    gc.collect()
    [event] = _events(recorded)
    assert event["exception.message"] == "Task was destroyed but it is pending!"
    assert "secret" not in str(event)


def test_places_are_bounded(errors, recorded):
    for number in range(MOST_PLACES + 5):
        record = logging.makeLogRecord({"name": "env", "levelno": logging.ERROR, "lineno": number, "pathname": "a.py"})
        errors.take(record)
    assert len(_events(recorded)) == MOST_PLACES


def test_a_process_that_records_nothing_else_records_no_error(errors, recorded, monkeypatch):
    monkeypatch.setattr(lifecycle, "has_recorded", False)
    _log()
    assert _events(recorded) == []
    lifecycle.run_first_record_callbacks()
    assert [event["rl.log.records"] for event in _events(recorded)] == [1]
