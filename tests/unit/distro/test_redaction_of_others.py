"""What other libraries record passes the user's function, under every name that docs/content.md lists."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext

from otel_rl.core import settings
from otel_rl.pipeline.redaction import RedactingLogRecordProcessor, RedactingSpanProcessor
from otel_rl.semconv import SCHEMA_URL
from otel_rl.telemetry import drops, redaction

PAGE = (Path(__file__).parents[3] / "docs" / "content.md").read_text()
TABLE = PAGE[PAGE.index("| names, `N`") : PAGE.index("All that is below a name")]
ROWS = [line.split("|")[1] for line in TABLE.splitlines()[2:] if line]
OF_MESSAGES, MESSAGES = (
    re.findall("`([^`]+)`", part)
    for part in next(row for row in ROWS if "in events named" in row).split("in events named")
)
NAMES = [
    name.replace("N", "0") for row in ROWS if "in events named" not in row for name in re.findall("`([^`]+)`", row)
]


def hide(text):
    return text.replace("s3cret", "***").replace("4111", "[card]")


@pytest.fixture
def use(monkeypatch):
    """Set the variable to a function."""

    def use(function):
        module = ModuleType("their_privacy")
        module.redact = function
        monkeypatch.setitem(sys.modules, "their_privacy", module)
        monkeypatch.setattr(redaction, "_functions", {})
        monkeypatch.setenv("OTEL_RL_REDACT", "their_privacy:redact")
        settings.reset()
        drops.reset()

    yield use
    monkeypatch.undo()
    settings.reset()


@pytest.fixture
def span(use):
    """Record a span of a scope with these attributes and events; what an exporter gets."""
    use(hide)
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(RedactingSpanProcessor())
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def record(values, events=(), schema_url=None, links=()):
        tracer = provider.get_tracer("theirs", schema_url=schema_url)
        with tracer.start_as_current_span("x", attributes=values, links=links) as span:
            for name, of_event in events:
                span.add_event(name, of_event)
        return exporter.get_finished_spans()[-1]

    return record


@pytest.fixture
def log(use):
    """Emit a log record; what an exporter gets."""
    use(hide)
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider()
    provider.add_log_record_processor(RedactingLogRecordProcessor())
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))

    def record(**fields):
        provider.get_logger("theirs").emit(LogRecord(**fields))
        return exporter.get_finished_logs()[-1].log_record

    return record


def test_the_page_lists_names_of_all_of_them():
    assert {"gen_ai.input.messages", "traceloop.entity.input", "input.value"} <= set(NAMES)
    assert len(NAMES) > 50


@pytest.mark.parametrize("name", NAMES)
def test_each_name_passes_the_function_on_spans_events_and_log_records(span, log, name):
    of_span = span({name: "the s3cret"}, [("step", {name: "the s3cret"})])
    assert of_span.attributes[name] == "the ***"
    assert of_span.events[0].attributes[name] == "the ***"
    assert log(attributes={name: "the s3cret"}).attributes[name] == "the ***"


@pytest.mark.parametrize(
    "name",
    [
        # As the writers build them: one attribute per variable, whatever the program calls it.
        *("traceloop.prompt.template_variables.name", "llm.prompt_template.variables.role"),
        *("gen_ai.prompt.0.content\nx", "db.marqo.search.query", "pinecone.query.queries"),
    ],
)
def test_names_with_parts_of_the_program_pass_the_function(span, log, name):
    assert span({name: "the s3cret"}).attributes[name] == "the ***"
    assert log(attributes={name: "the s3cret"}).attributes[name] == "the ***"


def test_attributes_of_links_pass_the_function(span):
    other = SpanContext(1, 2, is_remote=True)
    values = {"gen_ai.input.messages": "the s3cret", "my.note": "s3cret"}
    [link] = span({}, links=[Link(other, values)]).links
    assert link.context == other
    assert dict(link.attributes) == {"gen_ai.input.messages": "the ***", "my.note": "s3cret"}


@pytest.mark.parametrize("event", MESSAGES)
def test_attributes_of_message_events_pass_the_function(span, log, event):
    values = dict.fromkeys(OF_MESSAGES, "the s3cret")
    expected = dict.fromkeys(OF_MESSAGES, "the ***")
    assert dict(span({}, [(event, values)]).events[0].attributes) == expected
    assert dict(log(event_name=event, attributes=values).attributes) == expected
    assert dict(span({}, [("other", values)]).events[0].attributes) == values


@pytest.mark.parametrize(
    "name",
    [
        *("llm.input_messages.0.message.role", "llm.input_messages.0.message.contents.0.message_content.type"),
        *("gen_ai.completion.0.finish_reason", "input.mime_type", "gen_ai.prompt.name", "metadata", "llm.model_name"),
        *("gen_ai.usage.input_tokens", "my.note", "embedding.model_name", "llm.token_count.prompt", "tool.name"),
    ],
)
def test_other_names_are_left_alone(span, name):
    assert span({name: "s3cret"}).attributes[name] == "s3cret"


def test_numbers_of_a_vector_are_not_passed(span, use):
    seen = []
    use(lambda text: seen.append(text) or text)
    name = "embedding.embeddings.0.embedding.vector"
    assert span({name: [0.25, 0.5]}).attributes[name] == (0.25, 0.5)
    assert seen == []


def test_what_another_library_writes_on_our_spans_passes_and_our_own_content_does_not_again(span):
    values = {"input.value": "s3cret", "gen_ai.input.messages": "s3cret, as it was cleared before"}
    found = span(values, schema_url=SCHEMA_URL).attributes
    assert dict(found) == {**values, "input.value": "***"}


def test_structured_content_of_log_records_keeps_its_structure(log):
    message = {"role": "user", "parts": [{"type": "text", "content": "s3cret", "n": 2, "s3cret": None}]}
    expected = {"role": "user", "parts": [{"type": "text", "content": "***", "n": 2, "***": None}]}
    record = log(attributes={"gen_ai.input.messages": [message]}, body={"content": [message], "card": 4111})
    # The SDK makes tuples of lists.
    assert json.loads(json.dumps(record.attributes["gen_ai.input.messages"])) == [expected]
    assert json.loads(json.dumps(record.body)) == {"content": [expected], "card": "[card]"}


def test_a_long_body_is_not_cut_before_an_exporter_does_it(log):
    assert log(body="x" * 100_000 + "s3cret").body == "x" * 100_000 + "***"


def test_a_sequence_keeps_one_type(span):
    found = span({"input.value": ["a s3cret", "b"], "output.value": [1, 4111]}).attributes
    assert dict(found) == {"input.value": ("a ***", "b"), "output.value": ("1", "[card]")}


@pytest.mark.parametrize("value", ["s3cret", ["s3cret"]])
def test_content_that_the_function_withholds_is_dropped_and_counted(span, log, use, value):
    use(lambda text: None)
    assert dict(span({"input.value": value, "kept": 1}).attributes) == {"kept": 1}
    assert log(body={"text": value}).body is None
    assert drops.snapshot() == {("traces", "redaction_withheld"): 1, ("logs", "redaction_withheld"): 1}
