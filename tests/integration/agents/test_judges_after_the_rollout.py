"""A reward function that asks a judge after its rollout: the judge's calls are in the row that it scores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.fake_openai import FakeOpenAI
from support.own_command import otel_rl

from otel_rl.report import write_report
from otel_rl.store.reader import Reader, Span
from otel_rl.store.reader.locate import find_run

pytest.importorskip("openai")
MODULE = """
import os, openai

client = openai.OpenAI(api_key="none", base_url=os.environ["MODEL_URL"], max_retries=0)

def ask(model, **options):
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}], **options)

def rollout(sample):
    ask("tiny")
    return sample

def judge(sample):
    ask("tiny")
    if sample["sample_id"] == "2":
        for _ in ask("tiny", stream=True):
            break
    if sample["sample_id"] == "3":
        try:
            ask("missing")
        except openai.APIError:
            return 0.0
    return 0.5

def judge_all(samples):
    for _ in samples:
        ask("tiny")
    return [0.5 for _ in samples]
"""
PROGRAM = """
import otel_rl, judged

late = judged.rollout({"sample_id": "late"})
for name in ("1", "2", "3"):
    judged.judge(judged.rollout({"sample_id": name}))
otel_rl.flush()
judged.judge(late)
with otel_rl.step(7):
    judged.judge_all([judged.rollout({"sample_id": name}) for name in ("4", "5")])
"""
SUMS = ("calls", "errors", "input_tokens", "output_tokens")
COLUMNS = ("model_calls", "judge_calls", "judge_errors", "judge_input_tokens", "judge_output_tokens")


def test_what_a_judge_was_asked_is_in_the_row_that_it_scores(tmp_path):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "OPENAI_"))}
    own = {
        "OTEL_RL_RAISE_INTERNAL_ERRORS": "1",
        "OTEL_RL_DATA_DIR": "store",
        "OTEL_RL_ROLLOUT_FUNCTIONS": "judged:rollout",
        "OTEL_RL_REWARD_FUNCTIONS": "judged:judge,judged:judge_all",
    }
    (tmp_path / "judged.py").write_text(MODULE)
    (tmp_path / "train.py").write_text(PROGRAM)
    scripts = Path(sys.executable).parent

    def run(*command, **environ):
        return subprocess.run(
            command, cwd=tmp_path, env={**kept, **environ}, capture_output=True, text=True, timeout=120, check=True
        )

    with FakeOpenAI() as server:
        run(scripts / "opentelemetry-instrument", sys.executable, "train.py", MODEL_URL=server.base_url, **own)
    printed = otel_rl(tmp_path, "trajectories", "store").stdout
    rows = {row["rl.sample.id"]: row for row in map(json.loads, printed.splitlines())}
    found = {name: tuple(row.get(f"rl.rollout.{key}") or 0 for key in COLUMNS) for name, row in rows.items()}
    assert found == {
        # After the record with its row.
        "late": (1, 1, 0, 7, 3),
        "1": (1, 1, 0, 7, 3),
        # Of a stream that was left the server has sent no usage.
        "2": (1, 2, 0, 7, 3),
        "3": (1, 2, 1, 7, 3),
        # Of several that are scored at once nothing says which.
        "4": (1, 0, 0, 0, 0),
        "5": (1, 0, 0, 0, 0),
    }
    assert rows["4"]["scores"] == rows["5"]["scores"] == {"judge_all": 0.5}
    assert rows["3"]["rl.rollout.suspect"] is True
    # What no row has is on the span of the reward, and of its step.
    records = Reader(find_run(tmp_path / "store", None)).records()
    spans = [one for one in records if isinstance(one, Span) and "rl.reward.judge_calls" in one.attributes]
    assert sorted(span.name for span in spans) == ["rl.rank.step", "rl.reward"]
    for span in spans:
        sums = {key: span.attributes.get(f"rl.reward.judge_{key}") for key in SUMS}
        assert sums == {"calls": 2, "errors": 0, "input_tokens": 14, "output_tokens": 6}
        assert span.attributes["rl.reward.judge_seconds"] > 0
    write_report(tmp_path / "store", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Judges were asked 2 times, 14 input and 6 output tokens: " in page
    assert "in all, for whole batches, and in no row." in page
