"""What is written of a step: times, shares, the late rank, engines, rollouts, and what the health rules say."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from otel_rl.health.durations import PHASES
from otel_rl.semconv import attributes
from otel_rl.trackers.keys import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from otel_rl.training.steps import Step

#: Of the span of a step: what says which step it is.
_IDENTITY = frozenset({attributes.RL_LOOP_ITERATION, attributes.RL_RANK, attributes.RL_SAMPLING_PRIORITY})
_COLLECTIVE = "torch.distributed."
_COLLECTIVES = {
    attributes.TORCH_DISTRIBUTED_WAIT_TIME: "collective/wait_share",
    attributes.TORCH_DISTRIBUTED_HOST_TIME: "collective/share",
}


def of_step(step: Step, seconds: float, rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the figures by key; ``rows`` are the columns of the rollouts that ended in the step."""
    named = f"{PREFIX}{step.loop.name}/" if step.loop.name else PREFIX
    known = {"seconds": seconds}
    known.update({f"phase/{phase}": of_phase for phase, of_phase in phase_seconds(step).items()})
    known.update(_of_span(step, seconds))
    known.update(_of_rollouts(rows))
    known.update(_of_ranks())
    known.update(_of_health())
    return {f"{named}{key}": value for key, value in known.items() if math.isfinite(value)}


def phase_seconds(step: Step) -> dict[str, float]:
    """Return the seconds of a recorded step by phase, and by part of one."""
    totals = {PHASES.get(name, name): seconds for name, seconds in step.totals().items()}
    return {kind.removeprefix("rl."): seconds for kind, seconds in (totals | step.totals_of_kinds()).items()}


def _of_span(step: Step, seconds: float) -> Iterator[tuple[str, float]]:
    """Return the numbers that all rooms have put on the span of the step: collectives, engines, pauses, own cost."""
    known = getattr(step.rank_span, "attributes", None) or {}
    is_alone = not known.get(attributes.TORCH_DISTRIBUTED_CALLS)
    for name, value in known.items():
        is_collective = name.startswith(_COLLECTIVE)
        if type(value) not in (int, float) or name in _IDENTITY or (is_collective and is_alone):
            continue
        yield name.removeprefix("rl.").replace(_COLLECTIVE, "collective/").replace(".", "/"), value
        if name in _COLLECTIVES and seconds > 0:
            yield _COLLECTIVES[name], value / seconds


def _of_rollouts(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return number, mean length and tokens of the rollouts; tokens of those that were trained on are effective."""
    number, seconds, effective = 0, [], 0
    for body in rows:
        lengths = body.get(attributes.RL_ROLLOUT_SECONDS) or []
        tokens = body.get(attributes.RL_ROLLOUT_OUTPUT_TOKENS) or []
        trained = body.get(attributes.RL_ROLLOUT_TRAINED) or [None] * len(tokens)
        number += max((len(column) for column in body.values() if isinstance(column, list)), default=0)
        seconds += [length for length in lengths if length is not None]
        effective += sum(count or 0 for count, used in zip(tokens, trained, strict=False) if used is not False)
    if not number:
        return {}
    known: dict[str, float] = {"rollouts": number}
    if seconds:
        known["rollouts/seconds_mean"] = sum(seconds) / len(seconds)
    if effective:
        known["rollouts/effective_tokens"] = effective
    return known


def _of_ranks() -> dict[str, float]:
    """Return which rank the others waited for, and what it cost, in the step that was compared last; -1 is no rank."""
    watch = sys.modules.get("otel_rl.ranks.stragglers.watch")
    compared = watch.latest() if watch is not None else None
    if compared is None:
        return {}
    late = compared.straggler
    return {
        "late_rank": -1 if late is None else late.rank,
        "late_rank/lost_seconds": 0.0 if late is None else late.lost,
        "late_rank/lost_share": compared.lost_share,
    }


def _of_health() -> dict[str, float]:
    """Return 0, 1 or 2 for each rule that has enough data: healthy, warning, critical."""
    live = sys.modules.get("otel_rl.health.live")
    states = live.states() if live is not None else {}
    return {f"health/{code}": int(state) for code, state in states.items() if state >= 0}
