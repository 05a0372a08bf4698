"""Prompts and secrets that are planted everywhere in the input are nowhere in the output of the real collector."""

from __future__ import annotations

import re

import pytest
from collector_process import FILE_SINK, wait_for
from otlp import TRACE_ID, attributes, log_resource, metric_resource, span, trace_resource, value

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
BASES = [("local.yaml",), ("gateway.yaml", FILE_SINK), ("agent.yaml", FILE_SINK)]
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


@pytest.fixture(params=BASES, ids=lambda files: files[0])
def collector(request, start_collector):
    return start_collector(*request.param, OTEL_RL_COLLECTOR_ROOT_WAIT="1s", OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE="100")


def assert_clean(text: str) -> None:
    for planted in (KEY, PASSWORD, "violet elephants"):
        assert planted not in text


def test_spans_leave_without_prompts_and_secrets_and_with_all_else(collector):
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
    collector.send("traces", [trace_resource([planted, without_events, infrastructure])])
    wait_for(lambda: len(collector.spans()) == 3, "three spans in the file")
    assert_clean(collector.text("traces"))
    spans = {each["spanId"]: each for each in collector.spans()}
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
    assert "failed to execute" not in collector.log()
    failed = spans[infrastructure["spanId"]]
    assert failed["status"]["message"] == "torch.OutOfMemoryError: CUDA out of memory"
    assert attributes(failed["events"][0])["exception.message"] == "CUDA out of memory"


def test_content_leaves_neither_from_deep_inside_of_maps_nor_with_exceptions_outside_of_their_event(collector):
    bare = {"exception.message": PROMPT, "exception.stacktrace": STACKTRACE}
    planted = [*NESTED, EXCEPTION, bare]
    spans = [span("call", each) for each in planted] + [span("call", events=[("exception", bare)])]
    collector.send("traces", [trace_resource(spans)])
    collector.send("logs", [log_resource([{"attributes": value(each, "attributes")} for each in planted])])
    wait_for(lambda: len(collector.spans()) == len(spans), "all spans in the file")
    wait_for(lambda: len(collector.log_records()) == len(planted), "all records in the file")
    assert_clean(collector.text("traces"))
    assert_clean(collector.text("logs"))
    sent = {each["spanId"]: attributes(each) for each in collector.spans()}
    assert sent[spans[0]["spanId"]] == {"request": {"metadata": {"id": 1}}}
    assert sent[spans[2]["spanId"]] == {"request": {"model": "a{b}"}}
    assert sent[spans[len(NESTED)]["spanId"]]["exception.type"] == "ValueError"


def test_log_records_leave_without_prompts_and_secrets_and_with_their_event_name(collector):
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
    collector.send("logs", [log_resource(records)])
    wait_for(lambda: len(collector.log_records()) == len(records), "all records in the file")
    assert_clean(collector.text("logs"))
    first, *_, exception, plain, mapped, done = collector.log_records()
    assert attributes({"attributes": first["body"]["kvlistValue"]["values"]}) == step
    assert first["traceId"] == TRACE_ID
    assert attributes(first) == {**HARMLESS, "event.name": "rl.step"}
    assert attributes(exception)["event.name"] == "rl.process.exception"
    assert attributes(exception)["exception.type"] == "ValueError"
    assert plain["body"]["stringValue"].startswith("calling with ")
    assert "event.name" not in attributes(plain)
    assert attributes({"attributes": mapped["body"]["kvlistValue"]["values"]})["status"] == 200
    assert done["body"]["stringValue"] == "done"
    assert "failed to execute" not in collector.log()


def test_metric_points_leave_without_secrets(collector):
    collector.send("metrics", [metric_resource("rl.train.loss", 0.5, {"note": f"used {KEY}", "api_key": PASSWORD})])
    wait_for(lambda: [metric for metric in collector.metrics() if metric["name"] == "rl.train.loss"], "the metric")
    assert_clean(collector.text("metrics"))


def test_content_that_is_let_pass_keeps_prompts_and_still_masks_secrets(start_collector):
    collector = start_collector("local.yaml", "overlays/content.yaml")
    planted = span("chat", {**CONTENT, "note": KEY}, status=f"ValueError: {KEY}", events=[("exception", EXCEPTION)])
    collector.send("traces", [trace_resource([planted])])
    wait_for(collector.spans, "the span in the file")
    assert KEY not in collector.text("traces")
    assert set(CONTENT) <= set(attributes(collector.spans()[0]))
