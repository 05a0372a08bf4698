"""`--with replay` sends on what a run recorded by itself, without a collector, and none of its prompts and secrets."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

from bad_input import by_command
from collector_process import CollectorProcess, wait_for
from otlp import log_resource, value

PROMPT = "Tell me about the tallest volcano"
SECRETS = ("kD83hfQ0zLmW4cXp7TnY2bRs", "Vq7rTz9Lm2", "mara.lind@northlab.io")
PROGRAM = f"""
import logging, otel_rl
from opentelemetry import trace
with otel_rl.llm("m", messages=[{{"role": "user", "content": "{PROMPT}"}}]) as call:
    call.answer("An answer of the model")
with trace.get_tracer("program").start_as_current_span("noted") as span:
    span.set_attribute("http.request.header.authorization", "Bearer {SECRETS[0]}")
    span.set_attribute("note", "password={SECRETS[1]} mail {SECRETS[2]}")
otel_rl.event("recorded", {{"note": "password={SECRETS[1]} mail {SECRETS[2]}"}})
"""
LINE = "the loss of a record without an event name"
REPLAY = ["--role", "gateway", "--sink", "file", "--with", "replay"]


def record(folder: Path) -> Path:
    """Run a program that records to files, and return its files, moved to the folder that is replayed."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environ |= {
        "OTEL_RL_DATA_DIR": str(folder / "runs"),
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
    }
    command = [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, "-c", PROGRAM]
    subprocess.run(command, cwd=folder, env=environ, check=True, timeout=300, capture_output=True)
    replayed = folder / "otel-rl" / "collector-replay"
    replayed.mkdir(parents=True)
    for file in (folder / "runs").rglob("*-*.jsonl"):
        file.rename(replayed / file.name)
    line = {"resourceLogs": [log_resource([{"body": value(LINE)}])]}
    (replayed / "another.jsonl").write_text(f"{json.dumps(line)}\n")
    return replayed


def spans_and_records(collector: CollectorProcess) -> bool:
    logs = collector.text("logs")
    return "noted" in collector.text("traces") and "recorded" in logs and LINE in logs


def test_what_a_run_recorded_by_itself_is_redacted_when_it_is_replayed(otelcol_rl: Path, tmp_path: Path):
    recorded = "".join(file.read_text() for file in record(tmp_path).iterdir())
    assert [text for text in (PROMPT, *SECRETS) if text not in recorded] == []
    with by_command(otelcol_rl, tmp_path, REPLAY) as collector:
        wait_for(lambda: spans_and_records(collector), "the replayed spans and records")
    written = collector.text("traces") + collector.text("logs") + collector.text("metrics")
    assert [text for text in (PROMPT, *SECRETS) if text in written] == []


def test_files_that_the_run_has_compressed_are_replayed_too(otelcol_rl: Path, tmp_path: Path):
    for file in record(tmp_path).glob("*-0001.jsonl"):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    with by_command(otelcol_rl, tmp_path, REPLAY) as collector:
        wait_for(lambda: spans_and_records(collector), "the replayed spans and records")


def test_a_second_pass_changes_nothing_in_what_was_redacted(otelcol_rl: Path, tmp_path: Path):
    replayed = record(tmp_path)
    with by_command(otelcol_rl, tmp_path, REPLAY) as first:
        wait_for(lambda: spans_and_records(first), "the replayed spans and records")
    once = {name: rows(first.data / f"{name}.jsonl") for name in ("traces", "logs")}
    for file in replayed.iterdir():
        file.unlink()
    for name in once:
        (first.data / f"{name}.jsonl").rename(replayed / f"{name}.jsonl")
    with by_command(otelcol_rl, tmp_path, REPLAY) as second:
        wait_for(lambda: spans_and_records(second), "what was written, once more")
    for name, written in once.items():
        assert written
        assert [row for row in written if row not in rows(second.data / f"{name}.jsonl")] == []


def rows(file: Path) -> list[str]:
    """Return what others than the collector itself sent, a text for each resource."""
    groups = [
        group for line in file.read_text().splitlines() for key in json.loads(line) for group in json.loads(line)[key]
    ]
    return [json.dumps(group, sort_keys=True) for group in groups if "otelcol-rl" not in json.dumps(group["resource"])]
