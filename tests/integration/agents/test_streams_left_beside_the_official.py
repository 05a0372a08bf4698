"""A stream that the program leaves is no failed call, whatever the official instrumentor ends its span with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.fake_openai import FakeOpenAI

from otel_rl.report import write_report
from otel_rl.store.reader import Reader
from otel_rl.store.reader.locate import find_run

pytest.importorskip("opentelemetry.instrumentation.genai.openai")
PROGRAM = """
import sys, openai, otel_rl

with openai.OpenAI(api_key="none", base_url=sys.argv[1], max_retries=0) as client:
    def ask(model):
        return client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}], stream=True)

    for step in range(4):
        with otel_rl.step(step), otel_rl.rollout():
            for _ in ask("tiny"):
                break
            list(ask("tiny"))
    try:
        list(ask("breaking"))
    except openai.APIError as error:
        print(error)
"""


def test_only_a_call_that_failed_is_told_as_failed(tmp_path):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "OPENAI_"))}
    with FakeOpenAI() as server:
        done = subprocess.run(
            [
                Path(sys.executable).with_name("opentelemetry-instrument"),
                sys.executable,
                "-c",
                PROGRAM,
                server.base_url,
            ],
            cwd=tmp_path,
            env={**kept, "OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store"},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    assert "engine died" in done.stdout
    spans = [one for one in Reader(find_run(tmp_path / "store", None)).records() if hasattr(one, "parent_id")]
    # This is what the official instrumentor says of them.
    left = [one for one in spans if one.message == "abandoned stream"]
    assert [one.attributes["error.type"] for one in left] == ["_OTHER"] * 4
    written = write_report(tmp_path / "store", tmp_path / "page.html")
    said = [(one.code, one.text) for one in written.overview.findings]
    assert not [text for _, text in said if "_OTHER" in text or "model tiny failed" in text]
    assert "abandoned stream" not in written.output.read_text(encoding="utf-8")
    assert "breaking" in json.dumps([[one.text, one.evidence] for one in written.overview.findings])
