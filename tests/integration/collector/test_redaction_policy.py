"""What the redaction of the real collector does beside masking: fingerprints, merging, limits, job logs, counters."""

from __future__ import annotations

import re
import secrets
import time
import urllib.request

import shipped_settings
from collector_process import CollectorProcess, wait_for
from otlp import attributes, log_resource, metric_resource, plain_value, span, trace_resource, value
from redaction_cases import made_up_secret

PERSON = f"ann.lee@mail-{secrets.token_hex(4)}.dev"
FINGERPRINT = re.compile(r"\[redacted:[a-z0-9_.-]+:[0-9a-f]{8}\]")


def test_one_secret_can_be_followed_by_its_fingerprint_through_nodes_and_signals(otelcol_rl, tmp_path):
    secret, key = made_up_secret(), secrets.token_hex(32)
    environment = {shipped_settings.FINGERPRINTS: "true", "OTEL_RL_COLLECTOR_FINGERPRINT_KEY": key}
    marks = set()
    for node in ("one", "two"):
        (tmp_path / node).mkdir()
        with CollectorProcess(otelcol_rl, ["local.yaml"], tmp_path / node, environment) as collector:
            collector.send(
                "traces",
                [trace_resource([span("call", {"note": f"used {secret} here", "who": PERSON, "api_key": secret})])],
            )
            collector.send("logs", [log_resource([{"body": value(f"with {secret}")}])])
            collector.send("metrics", [metric_resource("rl.train.loss", 0.5, {"note": f"used {secret}"})])
            wait_for(lambda: collector.spans() and collector.log_records() and collector.metrics(), "all three")
            assert FINGERPRINT.fullmatch(attributes(collector.spans()[0])["api_key"])
            marks |= {mark for name in ("traces", "logs") for mark in FINGERPRINT.findall(collector.text(name))}
            assert attributes(collector.spans()[0])["who"] == "[redacted:email]"
            (point,) = next(each for each in collector.metrics() if each["name"] == "rl.train.loss")["gauge"][
                "dataPoints"
            ]
            assert attributes(point) == {"note": "used [redacted]"}
            assert not any(found in text for found in (secret, key) for text in map(collector.text, ("traces", "logs")))
    assert len(marks) == 1


def test_fingerprints_without_a_key_stop_the_start_with_the_way_out(otelcol_rl, tmp_path):
    for key, reason in (("", "there is no key"), ("too-short", "only 9 bytes")):
        environment = {shipped_settings.FINGERPRINTS: "true", "OTEL_RL_COLLECTOR_FINGERPRINT_KEY": key}
        refused = CollectorProcess(otelcol_rl, ["local.yaml"], tmp_path, environment).validate()
        assert refused.returncode != 0
        assert reason in refused.stderr
        assert "OTEL_RL_COLLECTOR_FINGERPRINT_KEY" in refused.stderr
        assert "openssl rand -hex 32" in refused.stderr


def test_points_that_become_alike_are_merged_by_their_metrics_rules(start_collector):
    collector = start_collector("local.yaml")
    now = time.time_ns()

    def point(number: int, **fields: object) -> dict[str, object]:
        who = value({"who": f"holder of {made_up_secret()}"}, "attributes")
        return {
            "attributes": who,
            "startTimeUnixNano": str(now - 10 - number),
            "timeUnixNano": str(now + number),
            **fields,
        }

    buckets = {"count": "3", "sum": 4.5, "bucketCounts": ["1", "2"], "explicitBounds": [1.0]}
    group = metric_resource("rl.test.gauge", 0)
    group["scopeMetrics"][0]["metrics"] = [
        {
            "name": "rl.test.sum",
            "sum": {
                "aggregationTemporality": 2,
                "isMonotonic": True,
                "dataPoints": [point(1, asInt="5"), point(2, asInt="7")],
            },
        },
        {"name": "rl.test.gauge", "gauge": {"dataPoints": [point(2, asDouble=0.25), point(1, asDouble=0.5)]}},
        {
            "name": "rl.test.histogram",
            "histogram": {"aggregationTemporality": 2, "dataPoints": [point(1, **buckets), point(2, **buckets)]},
        },
    ]
    collector.send("metrics", [group])
    found = wait_for(
        lambda: {each["name"]: each for each in collector.metrics() if each["name"].startswith("rl.test")},
        "the metrics",
    )
    (total,) = found["rl.test.sum"]["sum"]["dataPoints"]
    assert total["asInt"] == "12"
    assert (total["startTimeUnixNano"], total["timeUnixNano"]) == (str(now - 12), str(now + 2))
    assert attributes(total) == {"who": "holder of [redacted]"}
    (latest,) = found["rl.test.gauge"]["gauge"]["dataPoints"]
    assert latest["asDouble"] == 0.25
    (histogram,) = found["rl.test.histogram"]["histogram"]["dataPoints"]
    assert (histogram["count"], histogram["bucketCounts"]) == ("6", ["2", "4"])


def test_what_cannot_be_scanned_is_dropped_and_counted(start_collector):
    collector = start_collector("local.yaml")
    deep: dict[str, object] = {"note": "at the bottom"}
    for _ in range(40):
        deep = {"a": deep}
    collector.send(
        "traces", [trace_resource([span("call", {"long": "long text " * 120_000, "deep": deep, "kept": 1})])]
    )
    (got,) = wait_for(collector.spans, "the span")
    assert attributes(got)["long"] == "[dropped by redaction: size]"
    assert attributes(got)["kept"] == 1
    text = collector.text("traces")
    assert "at the bottom" not in text
    counters = own_counters(collector)
    assert counters['dropped{reason="size",signal="traces"}'] == 1
    assert counters['dropped{reason="depth",signal="traces"}'] == 1
    (said,) = [line for line in collector.log().splitlines() if "Redaction drops values" in line]
    assert '"dropped": {"depth":1,"size":1}' in said
    code, status = collector.ask("/status")
    assert (code, [each["component"] for each in status["components"]]) == (503, ["processor:secret_redaction"])
    assert collector.ask("/ready")[0] == 200


def test_the_processor_counts_what_it_did(start_collector):
    collector = start_collector("local.yaml")
    records = [{"body": value(f"mail to {PERSON}")}, {"eventName": "gen_ai.user.message", "body": value("hello")}]
    for _ in range(2):
        collector.send("logs", [log_resource(records)])
    wait_for(lambda: len(collector.log_records()) == 4, "the records")
    counters = own_counters(collector)
    assert counters['findings{class="email",signal="logs"}'] == 2
    assert counters['content_removed{signal="logs"}'] == 2
    assert counters['cache_hits{signal="logs"}'] >= 1
    assert counters['cache_misses{signal="logs"}'] >= 1
    assert counters['scanned_bytes{signal="logs"}'] >= len(f"mail to {PERSON}")


def own_counters(collector: CollectorProcess) -> dict[str, float]:
    """Return the processor's counters as Prometheus reads them, without what all metrics have."""
    with urllib.request.urlopen(f"http://127.0.0.1:{collector.metrics_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    counters = {}
    for line in lines:
        found = re.match(r"otelcol_processor_secret_redaction_(\w+?)(?:_total)?\{(.*)\} (\S+)$", line)
        if found:
            own = re.findall(r'\b(class|kind|reason|signal)="([^"]*)"', found[2])
            labels = ",".join(f'{name}="{text}"' for name, text in sorted(own))
            counters[f"{found[1]}{{{labels}}}"] = float(found[3])
    return counters


def test_lines_of_a_job_log_count_as_content(start_collector, tmp_path):
    job = tmp_path / "job.out"
    job.write_text("user asked about violet elephants\ntorch.OutOfMemoryError: CUDA out of memory\n")
    ingest = tmp_path / "ingest.yaml"
    ingest.write_text(f"""
receivers:
  file_log: {{include: ["{job}"], start_at: beginning}}
service:
  pipelines:
    logs/job: {{receivers: [file_log], processors: [secret_redaction], exporters: [forward/logs_out]}}
""")
    collector = start_collector("local.yaml", ingest)
    wait_for(lambda: len(collector.log_records()) == 2, "the two lines")
    bodies = [record["body"]["stringValue"] for record in collector.log_records()]
    assert bodies == ["[content removed]", "torch.OutOfMemoryError: CUDA out of memory"]
    assert {attributes(record)["log.file.name"] for record in collector.log_records()} == {"job.out"}


def test_allowed_content_is_masked_and_cut_at_its_size(start_collector):
    collector = start_collector("local.yaml", "overlays/content.yaml")
    secret = made_up_secret()
    long = f"question with {secret} " + "ü" * 20_000
    messages = [{"role": "user", "content": long}, {"role": "assistant", "content": "an answer"}]
    collector.send(
        "traces",
        [trace_resource([span("chat", {"input.value": long, "gen_ai.output.messages": messages, "note": long})])],
    )
    (got,) = wait_for(collector.spans, "the span")
    size = len(long.encode())
    text = attributes(got)["input.value"]
    assert text.startswith("question with [redacted:")
    assert text.endswith(f"ü... [truncated, {size} bytes]")
    assert len(text.encode()) <= 8192
    first, second = attributes(got)["gen_ai.output.messages"]
    assert len((first["content"] + second["content"]).encode()) <= 8192 + len("[truncated, 9 bytes]")
    assert "truncated" not in attributes(got)["note"]
    assert secret not in collector.text("traces")


def test_a_rules_file_replaces_the_rules_of_the_detector(otelcol_rl, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rules]]\nid = 'house-token'\nregex = '''house-[0-9]{6}'''\nkeywords = ['house-']\n")
    body = value("opened with house-123456 today")
    for folder, environment in (("with", {shipped_settings.REDACTION_RULES: str(rules)}), ("without", {})):
        (tmp_path / folder).mkdir()
        with CollectorProcess(otelcol_rl, ["local.yaml"], tmp_path / folder, environment) as collector:
            collector.send("logs", [log_resource([{"body": body}])])
            (record,) = wait_for(collector.log_records, "the record")
            assert ("house-123456" in plain_value(record["body"])) == (folder == "without")
