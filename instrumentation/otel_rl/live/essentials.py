"""The essentials of a run as JSON: steps, phases, the most important values, findings; without charts."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from otel_rl.live import recorded
from otel_rl.report.core import output
from otel_rl.report.core.colours import order
from otel_rl.report.core.steps import UNCOVERED, counted
from otel_rl.report.core.summary import summarise
from otel_rl.report.subjects.training import program_kinds, scalars

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.curves import Curve
    from otel_rl.report.core.finding import Overview
    from otel_rl.report.core.steps import Steps

#: Steps of which the phases are a mean, values that are shown, and points of their curves.
_STEPS, _VALUES, _POINTS = 20, 12, 40
#: Columns beside an aggregate ``max`` are those of its row: https://www.sqlite.org/lang_select.html#bareagg
_LAST = "SELECT key, last, max(time) FROM logged_key WHERE number > 0 GROUP BY key"


def build(collected: Collected, overview: Overview) -> bytes:
    """Return the essentials of what was read."""
    summary = summarise(collected)
    steps = collected.steps
    phases, at_once = _phases(steps)
    command = next((p.manifest.get("command") for p in collected.reader.processes if p.manifest), None)
    content = {
        "run": summary.run_id,
        "program": command if isinstance(command, str) else summary.service,
        "start_unix_nano": summary.start,
        "world_size": summary.world_size,
        "steps": counted(steps, collected.totals),
        "last_step": steps.last_iteration,
        "recorded": recorded.standing(collected).as_json(),
        "phases": phases,
        "phases_at_once": at_once,
        "values": _values(collected),
        "findings": output.as_json(overview)["findings"],
        "verdict": output.verdict(overview) if output.is_in_order(overview) else "",
    }
    return json.dumps(content).encode()


def _phases(steps: Steps) -> tuple[dict[str, float], float]:
    """Return the seconds of each phase in one of the last steps, ``uncovered`` last, and those beyond the step.

    Both are means over the ranks. Where phases run at once, their times add up to more than the step takes.
    """
    recent = sorted({x for line in steps.phases.values() for x in line.x})[-_STEPS:]
    first, last = (recent[0], recent[-1]) if recent else (0, 0)
    number = steps.phases[UNCOVERED].count_between(first, last) if UNCOVERED in steps.phases else 0
    if not number:
        return {}, 0.0
    sums = {phase: steps.phases[phase].total_between(first, last) for phase in sorted(steps.phases, key=order)}
    phases = {phase: total / number for phase, total in sums.items() if total > 0}
    return phases, steps.seconds_at_once(since=first) / number


def _values(collected: Collected) -> list[dict[str, Any]]:
    """Return the last values of the curves, those of the kind of program first."""
    logged = scalars.of_run(collected)
    kind = program_kinds.kind_of(collected, logged.keys)
    curves = [(panel.title, drawn[0]) for panel, drawn in logged.panels(kind)]
    shown = {curve.name for _, curve in curves}
    changing, _ = logged.rest(kind)
    curves += [(curve.name, curve) for curve in changing if curve.name not in shown]
    last = {row["key"]: row["last"] for row in collected.tables.rows(_LAST)}
    return [_value(title, curve, last) for title, curve in curves[:_VALUES] if curve.y]


def _value(title: str, curve: Curve, last: Mapping[str, float | None]) -> dict[str, Any]:
    # A curve has finite values only; NaN is NULL in the tables.
    now = last.get(curve.name, curve.y[-1])
    said = curve.y[-1] if now is not None and math.isfinite(now) else "NaN" if now is None else str(now)
    return {"title": title, "key": curve.name, "last": said, "curve": curve.y[-_POINTS:]}
