"""What the benchmarks of many rollouts share: one that runs itself as a program with the file store, and its spans."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from figures import BIN, environment

_OUTPUT, _NUMBERS = "OTEL_RL_BENCHMARK_SAMPLES", "OTEL_RL_BENCHMARK_ROLLOUTS"


def numbers() -> list[int]:
    """Return the numbers that :func:`run` has given this process; none where it is the benchmark itself."""
    return [int(number) for number in os.environ.get(_NUMBERS, "").split(",") if number]


def finish(result: Any) -> None:
    """Hand ``result`` to :func:`run`."""
    Path(os.environ[_OUTPUT]).write_text(json.dumps(result))


def run(file: str, directory: Path, *given: int, watched: bool = True, **variables: str) -> Any:
    """Run ``file`` as a program that stores into ``directory``, with these numbers; return its result."""
    output = directory / "result.json"
    ours = {"OTEL_RL_DATA_DIR": str(directory / "data"), _OUTPUT: str(output), _NUMBERS: ",".join(map(str, given))}
    launcher = [BIN / "opentelemetry-instrument"] if watched else []
    subprocess.run([*launcher, sys.executable, file], env=environment(**variables, **ours), cwd=directory, check=True)
    return json.loads(output.read_text())


def content(file: Path) -> bytes:
    """Return what is in a file of the store, compressed or not."""
    return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()


def spans(directory: Path) -> list[dict[str, Any]]:
    """Return the spans in the store."""
    return [
        span
        for file in directory.glob("data/*/*/traces*.jsonl*")
        for line in content(file).splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
