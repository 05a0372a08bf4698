"""What the processes of a run have recorded of themselves: of a collector's files that is all there is of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from otel_rl.live.standing import ProcessSign, ProcessState, Standing
from otel_rl.report.subjects.endings import process_end
from otel_rl.semconv import attributes as names
from otel_rl.store.reader.end_states import EndState

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.endings.process_end import ProcessEnd

_MOST = 512
_STATES = {
    EndState.RUNNING: ProcessState.RUNNING,
    EndState.NOT_KNOWN: ProcessState.UNKNOWN,
    EndState.NOT_RECORDED: ProcessState.UNKNOWN,
    EndState.GONE: ProcessState.GONE,
    EndState.KILLED: ProcessState.GONE,
}


def standing(collected: Collected) -> Standing:
    """Return the processes, ranks first; what is wrong with them stands among the findings of the page."""
    ends = sorted(process_end.ends(collected), key=lambda end: (end.process.rank is None, end.process.rank or 0))
    return Standing([_sign(end) for end in ends[:_MOST]])


def _sign(end: ProcessEnd) -> ProcessSign:
    state = _STATES.get(end.state, ProcessState.ENDED)
    if state is ProcessState.UNKNOWN and process_end.is_silent(end):
        # What records no end, as a server of others does, is not missed for its silence.
        state = ProcessState.GONE if end.state is EndState.NOT_KNOWN else ProcessState.ENDED
    is_open = state in (ProcessState.RUNNING, ProcessState.UNKNOWN)
    return ProcessSign(
        end.process.label,
        end.process.rank,
        str(end.process.identity(names.HOST_NAME) or ""),
        None,
        state,
        end.iteration,
        silent=max(time.time_ns() - end.time, 0) / 1e9 if is_open else None,
        cause=end.words if end.is_bad and not is_open else "",
    )
