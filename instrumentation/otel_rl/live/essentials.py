"""The essentials of a run as JSON: steps, phases, the most important values, findings; without charts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from otel_rl.live import recorded
from otel_rl.report.core import output
from otel_rl.report.core.colours import order
from otel_rl.report.core.statistics import Cell
from otel_rl.report.core.steps import UNCOVERED, counted
from otel_rl.report.core.summary import summarise
from otel_rl.report.subjects.training import program_kinds
from otel_rl.report.subjects.training.aggregate import Scalars

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.curves import Curve
    from otel_rl.report.core.finding import Overview
    from otel_rl.report.core.steps import Steps

#: Steps of which the phases are a mean, values that are shown, and points of their curves.
_STEPS, _VALUES, _POINTS = 20, 12, 40


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
    recent = steps.phases.bins()[-_STEPS:]
    sums: dict[str, Cell] = {}
    for phase, line in steps.phases.lines().items():
        for first, cell in line:
            if first in recent:
                sums.setdefault(phase, Cell()).merge(cell)
    number = sums[UNCOVERED].count if UNCOVERED in sums else 0
    if not number:
        return {}, 0.0
    phases = {phase: sums[phase].total / number for phase in sorted(sums, key=order) if sums[phase].total > 0}
    return phases, steps.seconds_at_once(since=recent[0]) / number


def _values(collected: Collected) -> list[dict[str, Any]]:
    """Return the last values of the curves, those of the kind of program first."""
    scalars = collected[Scalars]
    kind = program_kinds.kind_of(collected, scalars.keys)
    curves = [(panel.title, drawn[0]) for panel, drawn in scalars.panels(collected, kind)]
    shown = {curve.name for _, curve in curves}
    changing, _ = scalars.rest(collected, kind)
    curves += [(curve.name, curve) for curve in changing if curve.name not in shown]
    return [_value(title, curve) for title, curve in curves[:_VALUES] if curve.y]


def _value(title: str, curve: Curve) -> dict[str, Any]:
    return {"title": title, "key": curve.name, "last": curve.y[-1], "curve": curve.y[-_POINTS:]}
