"""``OTEL_RL_REDACT`` in real processes: content, exception text and foreign spans pass the user's function."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from process_support import plain

if TYPE_CHECKING:
    from process_support import Collector, Programs

REDACT = "def redact(text):\n    return text.replace('s3cret', '***')\n"
#: Every place where text of the user can be: content of ours and of others, exceptions caught and uncaught, the log.
PROGRAM = """
import logging
import otel_rl
from opentelemetry import trace

@otel_rl.tool("search")
def search(query):
    return "found s3cret"

search("s3cret")
otel_rl.reward("judge", 1.0, explanation="the s3cret was right")
try:
    with trace.get_tracer("theirs").start_as_current_span("theirs") as span:
        span.set_attribute("gen_ai.input.messages", '[{"content": "s3cret"}]')
        raise KeyError("s3cret")
except KeyError:
    logging.getLogger("mine").exception("lost the s3cret")
raise ValueError("s3cret")
"""
CONTENT = {
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
    "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED": "true",
    "OTEL_RL_REDACT": "privacy:redact",
}


def _written(programs: Programs) -> str:
    return "".join(path.read_text() for path in programs.store.root.rglob("*.json*"))


def test_nothing_is_recorded_that_the_function_removes(programs: Programs) -> None:
    programs.write("privacy.py", REDACT)
    done = programs.instrumented(PROGRAM, **CONTENT)

    assert done.code == 1
    assert "ValueError: s3cret" in done.err
    written = _written(programs)
    assert "s3cret" not in written
    spans = {span["name"]: span for span in programs.store.spans()}
    tool = plain(spans["execute_tool search"]["attributes"])
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"query": "***"}
    assert json.loads(tool["gen_ai.tool.call.result"]) == "found ***"
    assert plain(spans["theirs"]["attributes"])["gen_ai.input.messages"] == '[{"content": "***"}]'
    assert spans["theirs"]["status"]["message"] == "KeyError: '***'"
    (raised,) = spans["theirs"]["events"]
    assert plain(raised["attributes"])["exception.message"] == "'***'"
    assert "***" in plain(raised["attributes"])["exception.stacktrace"]
    (uncaught,) = programs.store.events("rl.process.exception")
    assert plain(uncaught["attributes"])["exception.message"] == "***"
    (reward,) = programs.store.events("gen_ai.evaluation.result")
    assert plain(reward["attributes"])["gen_ai.evaluation.explanation"] == "the *** was right"
    assert "lost the ***" in written


def test_without_the_variable_the_program_above_records_all_of_it(programs: Programs) -> None:
    programs.instrumented(PROGRAM, **{**CONTENT, "OTEL_RL_REDACT": ""})

    assert _written(programs).count("s3cret") >= 10


def test_a_function_that_raises_costs_the_texts_and_is_counted(programs: Programs) -> None:
    programs.write("privacy.py", "def redact(text):\n    raise RuntimeError(text)\n")
    done = programs.instrumented(PROGRAM, **CONTENT)

    assert done.code == 1
    assert "RuntimeError" not in done.err
    assert "s3cret" not in _written(programs)
    (uncaught,) = programs.store.events("rl.process.exception")
    assert plain(uncaught["attributes"])["exception.type"] == "ValueError"
    dropped = programs.store.manifests()[0]["dropped"]
    assert dropped["traces"]["redaction_failed"] == 6
    # With the name of the program among its arguments.
    assert dropped["logs"]["redaction_failed"] == 7


@pytest.mark.parametrize(("value", "why"), [("privacy", "it must be module:function"), ("gone:f", "No module named")])
def test_a_function_that_cannot_be_used_is_one_line_and_records_no_text(
    programs: Programs, value: str, why: str
) -> None:
    done = programs.instrumented(PROGRAM, **{**CONTENT, "OTEL_RL_REDACT": value})

    (line,) = [line for line in done.err.splitlines() if line.startswith("otel-rl: OTEL_RL_REDACT")]
    assert why in line
    assert "s3cret" not in _written(programs)


def test_the_function_may_be_in_the_program_itself_which_is_not_run_twice(programs: Programs) -> None:
    text = "print('begun')\n" + REDACT + PROGRAM
    done = programs.instrumented(text, **{**CONTENT, "OTEL_RL_REDACT": "program:redact"})

    assert done.out == "begun\n"
    assert "s3cret" not in _written(programs)
    assert "***" in _written(programs)


def test_a_function_that_logs_and_calls_recorded_code_does_not_call_itself(programs: Programs) -> None:
    programs.write(
        "privacy.py",
        "import logging, otel_rl\n"
        "@otel_rl.tool('classifier')\n"
        "def classify(text):\n    return text\n"
        "def redact(text):\n"
        "    logging.getLogger('privacy').warning('saw %s', text)\n"
        "    return classify(text).replace('s3cret', '***')\n",
    )
    done = programs.instrumented(PROGRAM, **CONTENT)

    assert done.code == 1
    assert "s3cret" not in _written(programs)
    assert "execute_tool classifier" in programs.store.span_names()


def test_it_holds_in_children_too(programs: Programs) -> None:
    programs.write("privacy.py", REDACT)
    programs.write("work.py", PROGRAM.replace("raise ValueError", "print"))
    done = programs.instrumented(
        "import multiprocessing, runpy\n"
        "if __name__ == '__main__':\n"
        "    for kind in ('spawn', 'fork'):\n"
        "        child = multiprocessing.get_context(kind).Process(target=runpy.run_module, args=('work',))\n"
        "        child.start(); child.join()\n",
        **CONTENT,
    )

    assert done.code == 0
    assert "s3cret" not in _written(programs)
    assert programs.store.span_names().count("execute_tool search") == 2


def test_it_holds_with_a_configuration_file(programs: Programs, collector: Collector) -> None:
    pytest.importorskip("opentelemetry.configuration")
    programs.write("privacy.py", REDACT)
    exporter = f"exporter: {{otlp_http: {{endpoint: 'http://127.0.0.1:{collector.port}/v1/%s'}}}}"
    programs.write(
        "otel.yaml",
        'file_format: "1.1"\n'
        f"tracer_provider: {{processors: [{{batch: {{{exporter % 'traces'}}}}}]}}\n"
        f"logger_provider: {{processors: [{{batch: {{{exporter % 'logs'}}}}}]}}\n",
    )
    programs.instrumented(PROGRAM, OTEL_CONFIG_FILE="otel.yaml", OTEL_RL_EXIT_TIMEOUT="30", **CONTENT)

    sent: Any = b"".join(body for _, body in collector.bodies)
    assert b"execute_tool search" in sent
    assert b"lost the ***" in sent
    assert b"s3cret" not in sent
