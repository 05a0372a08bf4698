"""The states of a lane: what they are called, their colours, and which of them are waiting."""

from __future__ import annotations

from typing import NamedTuple

from otel_rl.report.core import colours
from otel_rl.semconv.attributes import RlPhaseValues as Phase
from otel_rl.store.tables.engine_stages import Kind


class LaneState(NamedTuple):
    """A state as the page names it; one that waits is drawn in a neutral colour with a hatch."""

    name: str
    colour: str
    waits: bool = False


def _waiting(name: str) -> LaneState:
    return LaneState(name, colours.WAITING, waits=True)


_PHASES = (
    Phase.SAMPLE,
    Phase.GENERATE,
    Phase.LOG_PROBS,
    Phase.REWARD,
    Phase.TRAIN,
    Phase.FORWARD,
    Phase.BACKWARD,
    Phase.OPTIMIZER,
    Phase.SYNC,
    Phase.WEIGHT_SYNC,
    Phase.CHECKPOINT,
    Phase.LOAD,
    Phase.EVALUATE,
)
STATES = (
    *(LaneState(phase.replace("_", " "), colours.BY_KIND[phase]) for phase in _PHASES),
    # Beside rewards, which have the colour of tools elsewhere.
    LaneState("tool", colours.BY_KIND[Phase.DATA_WAIT]),
    LaneState("service", colours.BY_KIND["service"]),
    LaneState("prefill", colours.BY_KIND["prefill"]),
    LaneState("in no phase", colours.BY_KIND["uncovered"]),
    LaneState("busy", colours.BY_KIND["model"]),
    _waiting("waiting for data"),
    _waiting("waiting in a collective"),
    _waiting("waiting in a queue"),
    _waiting("waiting for the transfer of a cache"),
    _waiting("waiting between steps"),
    _waiting("waiting between calls"),
    _waiting("asleep"),
)
_PLACES = {state.name: place for place, state in enumerate(STATES)}
IN_NO_PHASE, BUSY = _PLACES["in no phase"], _PLACES["busy"]
COLLECTIVE, QUEUED, ASLEEP = _PLACES["waiting in a collective"], _PLACES["waiting in a queue"], _PLACES["asleep"]
BETWEEN_STEPS, BETWEEN_CALLS = _PLACES["waiting between steps"], _PLACES["waiting between calls"]
GENERATE, TOOL, REWARD = _PLACES["generate"], _PLACES["tool"], _PLACES["reward"]
SERVICE, PREFILL, TRANSFER = _PLACES["service"], _PLACES["prefill"], _PLACES["waiting for the transfer of a cache"]
#: State of a stage of a request; what an engine decodes is generated.
OF_STAGE = {Kind.WAIT: QUEUED, Kind.TRANSFER: TRANSFER, Kind.PREFILL: PREFILL, Kind.DECODE: GENERATE}
WEIGHT_SYNC, LOAD = _PLACES["weight sync"], _PLACES["load"]
#: Phases that begin with a weight sync.
SYNCS = frozenset({Phase.SYNC, Phase.WEIGHT_SYNC})
#: Waiting of a rank: what is left is its own work.
WAITS = tuple(place for place, state in enumerate(STATES) if state.waits)
_OF_PHASE = {phase: _PLACES[phase.replace("_", " ")] for phase in _PHASES}
_OF_PHASE[Phase.DATA_WAIT] = _PLACES["waiting for data"]
_WHEN = " ".join(f"WHEN '{phase}' THEN {place}" for phase, place in _OF_PHASE.items())
#: State of a phase, in SQL.
OF_PHASE = f"CASE name {_WHEN} ELSE {IN_NO_PHASE} END"
