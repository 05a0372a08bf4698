"""How long requests took, from the calls of which engines reported times: of all of them, and by server."""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.engines import work_as_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_rl.report.core.collected import Collected

#: Calls whose times are known; of more than so many every second one is read, then every third, and so on.
_MOST_CALLS = 200_000
_NUMBER_OF_CALLS = "SELECT count(*) FROM calls WHERE times IS NOT NULL"
_CALLS = """
SELECT place, times FROM call JOIN callee USING (callee) JOIN process USING (process)
WHERE times IS NOT NULL AND NOT is_superseded AND call.rowid % ? = 0"""
CallTimes = dict[str, "array[float]"]
"""Time of a request -> its values."""


@asked_once
def of_calls(collected: Collected) -> dict[str, CallTimes]:
    """Return the times of calls by server, those of all under an empty name; of batches in the process nothing."""
    found: dict[str, CallTimes] = {}
    number = int(collected.tables.value(_NUMBER_OF_CALLS) or 0)
    for place, text in map(tuple, collected.tables.stream(_CALLS, number // _MOST_CALLS + 1)):
        for name, value in json.loads(text).items():
            for server in {"", place}:
                found.setdefault(server, {}).setdefault(name, array("d")).append(value)
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return mean, median, 95th percentile and maximum."""
    ordered = sorted(values)

    def quantile(share: float) -> float:
        return ordered[min(round(share * (len(ordered) - 1)), len(ordered) - 1)]

    mean = sum(ordered) / len(ordered)
    return {"mean": mean, "median": quantile(0.5), "p95": quantile(0.95), "max": ordered[-1]}


def as_json(collected: Collected) -> dict[str, Any] | None:
    """Return all steps together and each row, and times by server, for programs; None where no engine was asked."""
    engines = collected.steps.engines
    steps, calls = engines.steps(), of_calls(collected)
    if not steps and not calls:
        return None
    whole = engines.whole()
    whole.times.update({name: spread(values) for name, values in calls.get("", {}).items()})
    servers = [
        {"server": server, "times": {name: spread(values) for name, values in times.items()}}
        for server, times in sorted(calls.items())
        if server
    ]
    return {
        "whole": work_as_json(whole),
        "servers": servers,
        "steps_of_a_row": 1,
        "steps": [work_as_json(work) for work in steps],
    }
