"""What waits in our decorators and blocks when the interpreter ends is closed as without them."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: The interpreter empties the modules that are still held, the latest import first: ours before the one that holds
#: what waits.
PROGRAM = """
import os, sys, types
held = sys.modules["held"] = types.ModuleType("held")
import otel_rl
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())

def generator(write=os.write):
    try:
        yield 1
    finally:
        write(1, b"closed\\n")

async def coroutine(write=os.write, wait=types.coroutine(generator)):
    try:
        await wait()
    finally:
        write(1, b"ended\\n")

def block(write=os.write, rollout=otel_rl.rollout(), tool=otel_rl.tool("t")):
    with rollout:
        try:
            yield 1
        finally:
            with tool:
                write(1, b"closed\\n")

waiting = {waiting}
next(waiting) if hasattr(waiting, "__next__") else waiting.send(None)
held.waiting = waiting
del waiting
sys.kept = list(sys.modules.values())
"""


@pytest.mark.parametrize(
    "waiting",
    [
        "otel_rl.rollout()(generator)()",
        'otel_rl.phase("sample")(generator)()',
        'otel_rl.tool("t")(generator)()',
        'otel_rl.span("s")(generator)()',
        "otel_rl.rollout()(coroutine)()",
        "block()",
    ],
)
def test_what_waits_when_the_interpreter_ends_runs_its_own_code_and_none_of_ours_fails(waiting):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("{waiting}", waiting)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "closed" in done.stdout
    assert ("ended" in done.stdout) == ("coroutine" in waiting)
    assert (done.stderr, done.returncode) == ("", 0)
