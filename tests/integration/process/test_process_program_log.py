"""The program's log: one variable records it with its trace context, and the program's output stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from process_support import ONE_SPAN, plain

if TYPE_CHECKING:
    from process_support import Programs

ON = {"OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED": "true", "OTEL_RL_QUIET": "true"}
#: Each changes what logging does when its root logger has a handler.
OUTPUTS = {
    "no configuration": "import logging; logging.getLogger('mine').warning('x')",
    "module function": "import logging; logging.warning('x'); print(len(logging.getLogger().handlers))",
    "basicConfig": "import logging; logging.basicConfig(level='DEBUG', format='%(message)s'); logging.debug('x')",
    "hasHandlers": "import logging; print(logging.getLogger('mine').hasHandlers(), logging.getLogger().handlers)",
    "malformed": "import logging; logging.warning('%d', 'x')",
    "stack": "import logging; logging.basicConfig(format='%(filename)s %(funcName)s'); logging.warning('x')",
    "handler that raises": "import logging\n"
    "class Bad(logging.Handler):\n    def emit(self, record): raise KeyError('mine')\n"
    "logging.getLogger().addHandler(Bad())\n"
    "try: logging.warning('x')\nexcept KeyError as error: print(error.__traceback__.tb_lineno, len(str(error)))",
}


def _records(programs: Programs, scope: str) -> list[dict[str, Any]]:
    return [
        record
        for line in programs.store._lines("logs")
        for resource in line["resourceLogs"]
        for one in resource["scopeLogs"]
        if one["scope"]["name"] == scope
        for record in one["logRecords"]
    ]


def test_records_have_text_level_and_the_trace_in_which_they_were_made(programs: Programs) -> None:
    programs.instrumented(
        "import logging\nfrom opentelemetry import trace\n"
        "with trace.get_tracer('t').start_as_current_span('work'):\n"
        "    logging.getLogger('mine').warning('hello %s', 'log', extra={'answer': 42})\n",
        **ON,
    )

    (record,) = _records(programs, "mine")
    (span,) = [span for span in programs.store.spans() if span["name"] == "work"]
    assert record["body"] == {"stringValue": "hello log"}
    assert (record["severityNumber"], record["severityText"]) == (13, "WARNING")
    assert (record["traceId"], record["spanId"]) == (span["traceId"], span["spanId"])
    assert plain(record["attributes"]) == {"answer": 42}


def test_a_dictionary_that_is_logged_keeps_its_structure_and_is_redacted(programs: Programs) -> None:
    programs.write("privacy.py", "def redact(text):\n    return text.replace('s3cret', '***')\n")
    done = programs.instrumented(
        "import logging\nlogging.getLogger('mine').warning({'step': 3, 'losses': [0.5, None], 's3cret': 'a s3cret'})\n",
        **ON,
        OTEL_RL_REDACT="privacy:redact",
    )

    (record,) = _records(programs, "mine")
    assert done.err == "{'step': 3, 'losses': [0.5, None], 's3cret': 'a s3cret'}\n"
    values = record["body"]["kvlistValue"]["values"]
    assert [value["key"] for value in values] == ["step", "losses", "***"]
    assert values[0]["value"] == {"intValue": "3"}
    assert values[2]["value"] == {"stringValue": "a ***"}


def test_an_exception_that_is_logged_has_type_message_and_stack(programs: Programs) -> None:
    programs.instrumented(
        "import logging\ntry: 1 / 0\nexcept ZeroDivisionError: logging.getLogger('mine').exception('failed')\n", **ON
    )

    (record,) = _records(programs, "mine")
    values = plain(record["attributes"])
    assert (values["exception.type"], values["exception.message"]) == ("ZeroDivisionError", "division by zero")
    assert "line 2" in values["exception.stacktrace"]


def test_levels_that_the_program_does_not_let_through_are_not_recorded(programs: Programs) -> None:
    programs.instrumented("import logging\nlogging.getLogger('mine').info('x')\n" + ONE_SPAN, **ON)

    assert _records(programs, "mine") == []


def test_without_the_variable_nothing_of_it_is_recorded(programs: Programs) -> None:
    programs.instrumented("import logging\nlogging.getLogger('mine').error('x')\n" + ONE_SPAN, OTEL_RL_QUIET="true")

    assert _records(programs, "mine") == []


def test_the_log_of_the_sdk_is_not_the_programs(programs: Programs) -> None:
    programs.instrumented(
        "import logging\nlogging.basicConfig(level='DEBUG')\nlogging.getLogger('opentelemetry.sdk').error('x')\n"
        "logging.getLogger('mine').error('y')\n",
        **ON,
    )

    assert _records(programs, "opentelemetry.sdk") == []
    assert len(_records(programs, "mine")) == 1


@pytest.mark.parametrize("program", OUTPUTS.values(), ids=OUTPUTS)
def test_the_program_prints_what_it_prints_without_us(programs: Programs, program: str) -> None:
    without, ours = programs.plain(program), programs.instrumented(program, **ON)

    assert (ours.code, ours.out) == (without.code, without.out)
    assert _without_frames_of_ours(ours.err) == _without_frames_of_ours(without.err)


def _without_frames_of_ours(text: str) -> list[str]:
    # Logging prints the frames of a malformed call, which are ours too.
    return [line for line in text.splitlines() if not line.startswith("  ")]
