"""Beside the official instrumentors of HTTP clients a call of an engine is one call, and its headers come once."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from coexistence.peers import HERE, Peer, python

_LIBRARIES = ("httpx", "requests", "aiohttp-client", "urllib3")
PEER = Peer(
    "http-clients",
    (
        *(f"opentelemetry-instrumentation-{library}==0.66b1" for library in _LIBRARIES),
        *("aiohttp", "httpx", "httpx2", "requests", "urllib3"),
    ),
    (),
)


@functools.cache
def _recorded(order: str) -> dict[str, Any]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "PYTHON"))}
    command = [python(PEER), Path(HERE, "http_program.py"), order]
    environment = {**kept, "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_call_is_one_of_ours_and_its_trace_context_and_baggage_are_sent_once(order):
    for client, found in _recorded(order).items():
        [call] = [span for span in found["spans"] if span["name"] in ("text_completion", "chat tiny")]
        [http] = [span for span in found["spans"] if span["scope"].startswith("opentelemetry.")]
        assert http["id"] == call["parent"] or http["parent"] == call["id"], (client, found)
        [traceparent] = [value for name, value in found["headers"] if name == "traceparent"]
        # The innermost that sends is the parent of the engine's span.
        assert traceparent.split("-")[2] in (http["id"], call["id"]), (client, found)
        [header] = [value for name, value in found["headers"] if name == "baggage"]
        assert sorted(header.split(",")) == ["rl.rollout.id=r1", "rl.sample.id=s1"], (client, found)
