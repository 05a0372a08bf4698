"""Prompts and secrets that are planted everywhere in the input are nowhere in the output of the real collector."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from collector_process import CollectorProcess, wait_for
from otlp import TRACE_ID, attributes, log_resource, metric_resource, span, trace_resource, value
from redaction_cases import made_up_secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Attribute of a resource by which a test finds what it sent.
SENT = "test.sent"
KEY = "sk-proj-Zq81mPlantedKeyThatMustNotLeave42"
PASSWORD = "correct-horse-battery"
MASK = re.compile(r"\[redacted:[a-z0-9_.-]+\]")
PROMPT = "the planted prompt about violet elephants"
STACKTRACE = f"""Traceback (most recent call last):
  File "/job/agent.py", line 7, in ask
    return call("{PROMPT}", api_key="{KEY}")
ValueError: cannot parse {PROMPT}
the second line of {PROMPT}

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/job/train.py", line 3, in main
    ask()
RuntimeError: {PROMPT}
  Find {PROMPT}
"""
# Each on an item of its own: what one of them sets off must not hide that another is not found.
NESTED = [
    {"request": {"metadata": {"id": 1}, "prompt": PROMPT}},
    {"request": {"extra": {}, "messages": [{"role": "user", "text": PROMPT}]}},
    {"request": {"model": "a{b}", "prompt": PROMPT}},
    {"request": {"choices": [{"index": 0}], "content": [PROMPT]}},
]
EXCEPTION = {
    "exception.type": "ValueError",
    "exception.message": f"bad {PROMPT} {KEY}",
    "exception.stacktrace": STACKTRACE,
}
CONTENT = {
    "gen_ai.input.messages": f'[{{"role":"user","content":"{PROMPT}"}}]',
    "gen_ai.output.messages": PROMPT,
    "gen_ai.system_instructions": PROMPT,
    "gen_ai.tool.call.arguments": PROMPT,
    "gen_ai.tool.call.result": PROMPT,
    "rl.rollout.input": PROMPT,
    "rl.reward.output": PROMPT,
    "gen_ai.tool.definitions": PROMPT,
    "gen_ai.prompt.0.content": PROMPT,
    "input.value": PROMPT,
    "llm.input_messages.0.message.content": PROMPT,
    "llm.choices.0.completion.text": PROMPT,
    "llm.request.functions.0.description": PROMPT,
    "reranker.query": PROMPT,
    "reranker.input_documents.0.document.content": PROMPT,
    "tool.json_schema": PROMPT,
}
SECRETS = {
    "api_key": PASSWORD,
    "http.request.header.authorization": PASSWORD,
    "note": f"used {KEY} today",
    "settings": {"nested": {"password": PASSWORD, "list": [{"client_secret": PASSWORD}]}, "why": f"key {KEY}"},
    "request": {"messages": [{"role": "user", "content": PROMPT}], "temperature": 0.5},
    "url": f"https://user:{PASSWORD}@example.org/",
    "environment": f"OPENAI_API_KEY={PASSWORD} HOME=/root",
}
HARMLESS = {
    "gen_ai.operation.name": "chat",
    "gen_ai.usage.input_tokens": 17,
    "gen_ai.request.max_tokens": 64,
    "gen_ai.response.finish_reasons": ["stop", "length"],
    "gen_ai.token.type": "input",
    "plan": "risk-assessment-of-the-whole-plan-for-today",
}


def written(collector: CollectorProcess, signal: str, sent: str) -> list[dict[str, Any]]:
    """The spans, records or metrics that were written of the resource with this name."""
    scopes, items = {"traces": ("scopeSpans", "spans"), "logs": ("scopeLogs", "logRecords")}.get(
        signal, ("scopeMetrics", "metrics")
    )
    groups = [group for group in collector.resources(signal) if attributes(group["resource"]).get(SENT) == sent]
    return [item for group in groups for scope in group[scopes] for item in scope[items]]


def assert_clean(text: str) -> None:
    for planted in (KEY, PASSWORD, "violet elephants"):
        assert planted not in text


def test_spans_leave_without_prompts_and_secrets_and_with_all_else(redacting: CollectorProcess):
    planted = span(
        f"chat {KEY}",
        {**CONTENT, **SECRETS},
        status=f"ValueError: {PROMPT} {KEY}",
        events=[("exception", EXCEPTION), ("gen_ai.content", {**CONTENT, "settings": SECRETS["settings"]})],
    )
    without_events = span("chat quiet", {**CONTENT, **HARMLESS, "note": KEY}, status=f"said {PROMPT}")
    infrastructure = span(
        "rl.train",
        status="torch.OutOfMemoryError: CUDA out of memory",
        events=[("exception", {"exception.type": "torch.OutOfMemoryError", "exception.message": "CUDA out of memory"})],
    )
    redacting.send("traces", [trace_resource([planted, without_events, infrastructure], **{SENT: "spans"})])
    wait_for(lambda: len(written(redacting, "traces", "spans")) == 3, "three spans in the file")
    assert_clean(redacting.text("traces"))
    spans = {each["spanId"]: each for each in written(redacting, "traces", "spans")}
    first = spans[planted["spanId"]]
    assert attributes(first)["request"] == {"temperature": 0.5}
    assert MASK.sub("<mask>", attributes(first)["environment"]) == "OPENAI_API_KEY=<mask> HOME=/root"
    kept = attributes(spans[without_events["spanId"]])
    assert MASK.fullmatch(kept.pop("note"))
    assert kept == HARMLESS
    assert first["status"]["message"] == "ValueError: [content removed]"
    exception = attributes(first["events"][0])
    assert exception["exception.type"] == "ValueError"
    assert exception["exception.message"] == "[content removed]"
    assert exception["exception.stacktrace"] == (
        '  File "/job/agent.py", line 7, in ask\n  File "/job/train.py", line 3, in main\n'
    )
    assert spans[without_events["spanId"]]["status"]["message"] == "[content removed]"
    assert "failed to execute" not in redacting.log()
    failed = spans[infrastructure["spanId"]]
    assert failed["status"]["message"] == "torch.OutOfMemoryError: CUDA out of memory"
    assert attributes(failed["events"][0])["exception.message"] == "CUDA out of memory"


def test_content_leaves_neither_from_deep_inside_of_maps_nor_with_exceptions_outside_of_their_event(
    redacting: CollectorProcess,
):
    bare = {"exception.message": PROMPT, "exception.stacktrace": STACKTRACE}
    planted = [*NESTED, EXCEPTION, bare]
    spans = [span("call", each) for each in planted] + [span("call", events=[("exception", bare)])]
    records = [{"attributes": value(each, "attributes")} for each in planted]
    redacting.send("traces", [trace_resource(spans, **{SENT: "deep"})])
    redacting.send("logs", [log_resource(records, **{SENT: "deep"})])
    wait_for(lambda: len(written(redacting, "traces", "deep")) == len(spans), "all spans in the file")
    wait_for(lambda: len(written(redacting, "logs", "deep")) == len(records), "all records in the file")
    assert_clean(redacting.text("traces"))
    assert_clean(redacting.text("logs"))
    sent = {each["spanId"]: attributes(each) for each in written(redacting, "traces", "deep")}
    assert sent[spans[0]["spanId"]] == {"request": {"metadata": {"id": 1}}}
    assert sent[spans[2]["spanId"]] == {"request": {"model": "a{b}"}}
    assert sent[spans[len(NESTED)]["spanId"]]["exception.type"] == "ValueError"


def test_log_records_leave_without_prompts_and_secrets_and_with_their_event_name(redacting: CollectorProcess):
    step = {"loss": 0.25, "completions/mean_length": 32.0, "learning_rate": 1e-6}
    records = [
        {"eventName": "rl.step", "body": value(step), "traceId": TRACE_ID, "attributes": value(HARMLESS, "attributes")},
        {"eventName": "gen_ai.user.message", "body": value(PROMPT)},
        {"eventName": "gen_ai.choice", "body": value({"message": {"content": PROMPT}})},
        {"eventName": "gen_ai.client.inference.operation.details", "attributes": value(CONTENT, "attributes")},
        {"eventName": "rl.process.exception", "body": value(PROMPT), "attributes": value(EXCEPTION, "attributes")},
        {"body": value(f"calling with {KEY} and password={PASSWORD}")},
        {"body": value({"request": {"messages": [{"content": PROMPT}]}, "api_key": PASSWORD, "status": 200})},
        {"body": value("done"), "attributes": value({**CONTENT, **SECRETS}, "attributes")},
    ]
    redacting.send("logs", [log_resource(records, **{SENT: "records"})])
    wait_for(lambda: len(written(redacting, "logs", "records")) == len(records), "all records in the file")
    assert_clean(redacting.text("logs"))
    first, *_, exception, plain, mapped, done = written(redacting, "logs", "records")
    assert attributes({"attributes": first["body"]["kvlistValue"]["values"]}) == step
    assert first["traceId"] == TRACE_ID
    assert attributes(first) == {**HARMLESS, "event.name": "rl.step"}
    assert attributes(exception)["event.name"] == "rl.process.exception"
    assert attributes(exception)["exception.type"] == "ValueError"
    assert plain["body"]["stringValue"].startswith("calling with ")
    assert "event.name" not in attributes(plain)
    assert attributes({"attributes": mapped["body"]["kvlistValue"]["values"]})["status"] == 200
    assert done["body"]["stringValue"] == "done"
    assert "failed to execute" not in redacting.log()


def test_metric_points_leave_without_secrets(redacting: CollectorProcess):
    labels = {"note": f"used {KEY}", "api_key": PASSWORD}
    redacting.send("metrics", [metric_resource("rl.train.loss", 0.5, labels, **{SENT: "points"})])
    wait_for(lambda: written(redacting, "metrics", "points"), "the metric")
    assert_clean(redacting.text("metrics"))


@pytest.fixture(scope="module")
def letting_pass(otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    files = ["local.yaml", "overlays/content.yaml"]
    with CollectorProcess(otelcol_rl, files, tmp_path_factory.mktemp("letting-pass"), {}) as running:
        yield running


def test_content_that_is_let_pass_keeps_prompts_and_still_masks_secrets(letting_pass: CollectorProcess):
    planted = span("chat", {**CONTENT, "note": KEY}, status=f"ValueError: {KEY}", events=[("exception", EXCEPTION)])
    letting_pass.send("traces", [trace_resource([planted], **{SENT: "planted"})])
    (got,) = wait_for(lambda: written(letting_pass, "traces", "planted"), "the span in the file")
    assert KEY not in letting_pass.text("traces")
    assert set(CONTENT) <= set(attributes(got))


def test_allowed_content_is_masked_and_cut_at_its_size(letting_pass: CollectorProcess):
    secret = made_up_secret()
    long = f"question with {secret} " + "ü" * 20_000
    messages = [{"role": "user", "content": long}, {"role": "assistant", "content": "an answer"}]
    allowed = span("chat", {"input.value": long, "gen_ai.output.messages": messages, "note": long})
    letting_pass.send("traces", [trace_resource([allowed], **{SENT: "allowed"})])
    (got,) = wait_for(lambda: written(letting_pass, "traces", "allowed"), "the span")
    size = len(long.encode())
    text = attributes(got)["input.value"]
    assert text.startswith("question with [redacted:")
    assert text.endswith(f"ü... [truncated, {size} bytes]")
    assert len(text.encode()) <= 8192
    first, second = attributes(got)["gen_ai.output.messages"]
    assert len((first["content"] + second["content"]).encode()) <= 8192 + len("[truncated, 9 bytes]")
    assert "truncated" not in attributes(got)["note"]
    assert secret not in letting_pass.text("traces")
