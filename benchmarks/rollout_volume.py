"""Rows and spans of a step with thousands of rollouts in the file store, and the memory that they take.

    python benchmarks/rollout_volume.py [--rollouts 8192] [--steps 6] [--output FILE]

A rollout has a random id, three model calls, two tools, and a reward of two parts; one of a hundred fails. They end one
by one, a step after the other, under `opentelemetry-instrument` with the file store, whose full files are compressed.
What 1,000 steps take is the size of a row in the compressed files times their number. The default store holds them in
its share for log records, but for two files that are not compressed: the last one, and one that is just being
compressed. Memory is what the process grows by after the second step, in which the first one is recorded. Beside rows,
the log records have the scores of rollouts with spans; copies of rows that wait for the end of a long step have files
and a share of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import rollout_programs
from figures import finish

if TYPE_CHECKING:
    from collections.abc import Iterable

ROLLOUTS, STEPS, JOB_STEPS = 8192, 6, 1000
MIB, FAILING = 1 << 20, 100
_ID = "rl.rollout.id"


def _rollout(step: int, sample: int) -> None:
    import otel_rl

    with otel_rl.rollout(str(uuid4()), sample_id=sample // 16, group_id=sample // 16, policy_version=step):
        for turn in range(3):
            with otel_rl.llm("policy", provider="engine") as call:
                call.usage(input_tokens=512 + 97 * turn + sample % 61, output_tokens=64 + sample % 127)
                call.finish("stop" if turn == 2 else "tool_calls")
            if turn < 2:
                with otel_rl.tool("search"):
                    pass
        otel_rl.reward("answer", sample % 7 / 6, parts={"format": 1.0, "correct": sample % 7 / 6})
        if sample % FAILING == 0:
            raise TimeoutError


def _memory() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def _full_files_are_plain() -> bool:
    files = sorted(Path(os.environ["OTEL_RL_DATA_DIR"]).glob("*/*/logs-0*.jsonl*"))
    return any(file.suffix != ".gz" for file in files[:-1])


def watched(number: int, steps: int) -> None:
    """Run the program, which gives its memory after each step."""
    from contextlib import suppress

    import otel_rl

    memory = []
    for step in range(steps):
        with otel_rl.step(step):
            for sample in range(number):
                with suppress(TimeoutError):
                    _rollout(step, sample)
        memory.append(_memory())
    otel_rl.flush(60)
    # Files are compressed in spare time, of which a program that computes leaves little.
    deadline = time.monotonic() + 60
    while _full_files_are_plain() and time.monotonic() < deadline:
        time.sleep(0.1)
    rollout_programs.finish(memory)


class Rows(NamedTuple):
    """Rows in files, bytes of all log records there, and bytes of these files."""

    number: int
    plain: int
    on_disk: int

    @staticmethod
    def of(files: Iterable[Path]) -> Rows:
        """Return what is in these files."""
        counts = [
            (_rows(content := rollout_programs.content(file)), len(content), file.stat().st_size) for file in files
        ]
        return Rows(*(sum(column) for column in zip(*counts, strict=True)))


def _rows(content: bytes) -> int:
    rows = 0
    for line in content.splitlines():
        for resource in json.loads(line)["resourceLogs"]:
            for scope in resource["scopeLogs"]:
                for record in scope["logRecords"]:
                    if record.get("eventName") == "rl.trajectories" and record.get("body"):
                        body = record["body"].get("kvlistValue", {}).get("values", [])
                        rows += sum(len(each["value"]["arrayValue"]["values"]) for each in body if each["key"] == _ID)
    return rows


def main() -> int:
    """Measure, print and write the result; returns the exit status."""
    if numbers := rollout_programs.numbers():
        watched(*numbers)
        return 0
    from otel_rl.core.settings import Settings
    from otel_rl.store.writer.file_store import SHARES

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--rollouts", type=int, default=ROLLOUTS)
    parser.add_argument("--steps", type=int, default=STEPS)
    options, _ = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        memory = rollout_programs.run(__file__, directory, options.rollouts, options.steps)
        every = Rows.of(directory.glob("data/*/*/logs-0*.jsonl*"))
        full = list(directory.glob("data/*/*/logs-0*.jsonl.gz"))
        if not full:
            parser.error("so few rollouts fill no file of the store, and only full ones are compressed: give more")
        compressed = Rows.of(full)
        spans = rollout_programs.spans(directory)
    expected, per_row = options.rollouts * options.steps, compressed.on_disk / compressed.number
    settings = Settings()
    room = settings.data_max_bytes * SHARES["logs"] - 2 * settings.file_max_bytes
    roots = {span["traceId"]: span for span in spans if span["name"] == "rl.rollout"}
    failed = sum(span["status"].get("code") == 2 for span in roots.values())
    failing = options.steps * len(range(0, options.rollouts, FAILING))
    orphans = sum(bool(span.get("parentSpanId")) and span["traceId"] not in roots for span in spans if _is_call(span))
    figures = {
        "share of rollouts with a row": {"value": every.number / expected, "at_least": 1.0},
        "share of failed rollouts with spans": {"value": failed / failing, "at_least": 1.0},
        "rollouts with spans, per step": {"value": round(len(roots) / options.steps)},
        "spans without their rollout": {"value": orphans, "limit": 0},
        "1,000 rows before compression, KiB": {"value": round(every.plain / every.number * 1000 / 1024, 1)},
        "1,000 rows in the store, KiB": {"value": round(per_row * 1000 / 1024, 1)},
        "steps of 8,192 rows that the default store holds": {
            "value": int(room / per_row / ROLLOUTS),
            "at_least": JOB_STEPS,
        },
        "memory that later steps add, MiB": {"value": round(memory[-1] - memory[1], 1), "limit": 64},
    }
    return finish("rollout_volume", figures, [{"memory": memory}], __doc__.splitlines()[0])


def _is_call(span: dict[str, Any]) -> bool:
    return span["name"] in ("execute_tool search", "chat policy", "rl.reward")


if __name__ == "__main__":
    sys.exit(main())
