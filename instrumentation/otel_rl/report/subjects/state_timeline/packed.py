"""The lanes as one short text for the page, whose script draws of them what a reader chooses.

Times are whole microseconds since the first record. Of each lane ``exact`` has its stretches as
``gap,length,state[,change of the step[,share]]``: the latest steps and the slowest one; ``bins`` has two characters for
each bin of the whole run, the state that took most of it and the share of that state in tenths.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.report.subjects.state_timeline.bins import CELLS
from otel_rl.report.subjects.state_timeline.exact import LATEST, SLOWEST, Merged
from otel_rl.report.subjects.state_timeline.states import STATES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.report.subjects.state_timeline.asked import Window
    from otel_rl.report.subjects.state_timeline.rollouts import RolloutLanes
    from otel_rl.report.subjects.state_timeline.timeline import StateTimeline

#: Stretches of rollouts on the page.
OF_ROLLOUTS = 8_000
#: Bytes of all lanes on the page at most: bins (2 each), stretches (32 each at most), and names, steps and marks.
BYTES = 2 * CELLS + 32 * (LATEST + SLOWEST + OF_ROLLOUTS) + (1 << 20)
_NAME = 60


class Packed(NamedTuple):
    """The text, and what it leaves out: since when stretches are exact (ns since the epoch, 0: all of them)."""

    text: str
    since: int
    #: The shortest stretch of the slowest and of the latest steps, in ns, where shorter ones are merged.
    shortest: int
    rollouts: int


def pack(timeline: StateTimeline, own: Mapping[int | None, float] | None = None) -> Packed:
    """Return all lanes as a text of at most :data:`BYTES` bytes; ``own`` has the mean own work of a rank in a step."""
    zero, steps, slowest = timeline.start, list(timeline.steps), timeline.slowest
    latest, earlier = timeline.latest, timeline.earlier
    windows = [] if latest.since <= zero else [[_us(latest.since - zero), None]]
    if slowest is not None and earlier is not None:
        windows.insert(0, [_us(slowest.start - zero), _us(min(slowest.end, latest.since) - zero)])
    if slowest is not None and slowest not in steps:
        steps.insert(0, slowest)
    of_rollouts, chosen = _rollouts(timeline, steps)
    content = {
        "states": [[state.name, state.colour, state.waits] for state in STATES],
        "end": _us(timeline.end - zero),
        "bins": [(timeline.bins.start - zero) / 1e3, timeline.bins.width / 1e3],
        "windows": windows,
        "lanes": [
            {
                "name": lane.name[:_NAME],
                "group": "rank" if lane.is_rank else "engine",
                "rank": lane.rank,
                "own": (own or {}).get(lane.rank),
                "node": lane.node[:_NAME],
                "exact": _written([*(earlier.lanes[place] if earlier else ()), *latest.lanes[place]], zero),
                "bins": lane.bins if windows else "",
                "totals": [float(f"{total:.4g}") for total in lane.totals],
            }
            for place, lane in enumerate(timeline.lanes)
        ],
        "steps": [[_label(step, steps), _us(step.start - zero), _us(step.end - zero)] for step in steps],
        "slowest": steps.index(slowest) if slowest is not None else -1,
        "rollouts": of_rollouts,
        "chosen": chosen,
        "syncs": [_us(moment - zero) for moment in timeline.syncs],
    }
    shortest = max(latest.shortest, earlier.shortest if earlier else 0)
    text = json.dumps(content, separators=(",", ":"))
    return Packed(text, latest.since if windows else 0, shortest, timeline.rollouts.number - len(of_rollouts))


def _us(nanoseconds: int) -> int:
    return nanoseconds // 1000


def _written(stretches: list[Merged], zero: int) -> str:
    """Return the stretches of a lane as text."""
    parts = []
    at, step = 0, -1
    for one in stretches:
        start, end = _us(one.start - zero), _us(one.end - zero)
        part = f"{start - at},{end - start},{one.kind}"
        if one.step != step or one.share != 100:  # noqa: PLR2004 - percent
            part += f",{one.step - step}"
        if one.share != 100:  # noqa: PLR2004 - percent
            part += f",{one.share}"
        parts.append(part)
        at, step = end, one.step
    return ";".join(parts)


def _label(step: Window, steps: list[Window]) -> str:
    several = len({other.attempt for other in steps}) > 1
    return f"{step.iteration} (attempt {step.attempt})" if several else str(step.iteration)


def _rollouts(timeline: StateTimeline, steps: list[Window]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rollouts of the page, and which of them belong to the run and to each step."""
    rollouts = timeline.rollouts
    numbers = {step[:2]: number for number, step in enumerate(steps)}
    first = None if timeline.slowest is None else timeline.slowest[:2]
    keys = sorted(rollouts.of_steps.keys() & numbers.keys(), key=lambda key: (key != first, -numbers[key]))
    lists = [rollouts.latest, rollouts.longest, *(rollouts.of_steps[key][0] for key in keys)]
    places = {one: place for place, one in enumerate(dict.fromkeys(one for listed in lists for one in listed))}
    drawn, room = [], OF_ROLLOUTS
    for lanes in rollouts.drawn(list(places)):
        drawn.append(_lane(lanes, timeline.start))
        room -= sum(len(lane.stretches) for lane in (lanes, *lanes.beneath))
        if room <= 0:
            break
    latest, longest, *of_steps = ([places[one] for one in listed if places[one] < len(drawn)] for listed in lists)
    said = {str(numbers[key]): [listed, rollouts.of_steps[key][1]] for key, listed in zip(keys, of_steps, strict=True)}
    return drawn, {"latest": latest, "longest": longest, "steps": said}


def _lane(lanes: RolloutLanes, zero: int) -> dict[str, Any]:
    written = {"name": lanes.name, "exact": _written([Merged(*part) for part in lanes.stretches], zero)}
    return {**written, "beneath": [_lane(lane, zero) for lane in lanes.beneath]} if lanes.beneath else written
