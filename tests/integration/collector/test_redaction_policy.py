"""What the redaction of the real collector does beside masking: fingerprints, merging, limits, job logs, counters."""

from __future__ import annotations

import re
import secrets
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import shipped_settings
from collector_process import CollectorProcess, wait_for
from otlp import attributes, log_resource, metric_resource, span, trace_resource, value
from redaction_cases import made_up_secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PERSON = f"ann.lee@mail-{secrets.token_hex(4)}.dev"
FINGERPRINT = re.compile(r"\[redacted:[a-z0-9_.-]+:[0-9a-f]{8}\]")


@pytest.fixture(scope="module")
def local(otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """For tests of which each looks at other items, counters or labels than the others."""
    with CollectorProcess(otelcol_rl, ["local.yaml"], tmp_path_factory.mktemp("local")) as running:
        yield running


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


def test_points_that_become_alike_are_merged_by_their_metrics_rules(local: CollectorProcess):
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
    local.send("metrics", [group])
    found = wait_for(
        lambda: {each["name"]: each for each in local.metrics() if each["name"].startswith("rl.test")},
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


def test_what_cannot_be_scanned_is_dropped_and_counted(local: CollectorProcess):
    deep: dict[str, object] = {"note": "at the bottom"}
    for _ in range(40):
        deep = {"a": deep}
    local.send("traces", [trace_resource([span("call", {"long": "long text " * 120_000, "deep": deep, "kept": 1})])])
    (got,) = wait_for(local.spans, "the span")
    assert attributes(got)["long"] == "[dropped by redaction: size]"
    assert attributes(got)["kept"] == 1
    text = local.text("traces")
    assert "at the bottom" not in text
    counters = own_counters(local)
    assert counters['dropped{reason="size",signal="traces"}'] == 1
    assert counters['dropped{reason="depth",signal="traces"}'] == 1
    (said,) = [line for line in local.log().splitlines() if "Redaction drops values" in line]
    assert '"dropped": {"depth":1,"size":1}' in said
    code, status = local.ask("/status")
    assert (code, [each["component"] for each in status["components"]]) == (503, ["processor:secret_redaction"])
    assert local.ask("/ready")[0] == 200


def test_the_processor_counts_what_it_did(local: CollectorProcess):
    records = [{"body": value(f"mail to {PERSON}")}, {"eventName": "gen_ai.user.message", "body": value("hello")}]

    def is_of_this_test(record: dict[str, Any]) -> bool:
        return "mail to" in str(record["body"]) or record.get("eventName") == records[1]["eventName"]

    for _ in range(2):
        local.send("logs", [log_resource(records)])
    wait_for(lambda: sum(map(is_of_this_test, local.log_records())) == 4, "the records")
    counters = own_counters(local)
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


def test_a_rules_file_replaces_the_rules_of_the_detector(start_collector, local: CollectorProcess, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rules]]\nid = 'house-token'\nregex = '''house-[0-9]{6}'''\nkeywords = ['house-']\n")
    with_rules = start_collector("local.yaml", **{shipped_settings.REDACTION_RULES: str(rules)})
    for collector, is_shown in ((with_rules, False), (local, True)):
        collector.send("logs", [log_resource([{"body": value("opened with house-123456 today")}])])
        wait_for(lambda written=collector: "opened with" in written.text("logs"), "the record")
        assert ("house-123456" in collector.text("logs")) == is_shown
