"""Counts of executed bytecodes: what a benchmark can compare where neighbours use the same caches."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def _owner(file: str) -> str:
    if f"{os.sep}otel_rl{os.sep}" in file:
        return "own code"
    return "OpenTelemetry" if f"{os.sep}opentelemetry{os.sep}" in file else "client"


def executed(run: Callable[[int], None], number: int) -> Counter[str]:
    """Return the bytecodes of `number` calls by whose code they are."""
    counts: Counter[str] = Counter()

    def count(frame: Any, event: str, _: Any) -> Any:
        if event == "call":
            frame.f_trace_opcodes = True
        elif event == "opcode":
            counts[frame.f_code.co_filename] += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        run(number)
    finally:
        sys.settrace(before)
    owners: Counter[str] = Counter()
    for file, number_there in counts.items():
        owners[_owner(file)] += number_there
    return owners
