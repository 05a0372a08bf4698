"""The example of docs/runtime-sinks.md is a sink that gets each step."""

from __future__ import annotations

import re
from pathlib import Path

import otel_rl
from otel_rl.process import process_identity
from otel_rl.process.process_identity import ProcessIdentity
from otel_rl.sinks.following import follower

PAGE = Path(__file__).resolve().parents[3] / "docs/runtime-sinks.md"


def test_the_example_prints_the_run_its_steps_and_its_end(recorded, monkeypatch, capsys):
    monkeypatch.setattr(process_identity, "_current", ProcessIdentity(id="run-1", steps_key="run-1/0.0.0"))
    monkeypatch.setattr(process_identity, "settled", lambda: True)
    follower.forget()
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(example, str(PAGE), "exec"), {})  # noqa: S102 - as a reader would run it
    for number in (1, 2):
        with otel_rl.step(number):
            otel_rl.metric("reward", float(number))
    follower.finish(None)
    follower.forget()

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("run run-1 {")
    assert lines[1:] == ["step 1 1.0 1.0", "step 2 2.0 1.5", "end completed 2"]
