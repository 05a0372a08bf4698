"""How the leading process spent its time, from its start to its end."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core import thresholds
from otel_rl.report.subjects.run_time.intervals import Intervals
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics, spans
from otel_rl.semconv.attributes import RlRunPartValues as Part
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.store.reader.otlp_values import seconds_or_none
from otel_rl.telemetry.sampling import ROLLOUT_SPANS

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Log, Process, Span

START, TELEMETRY, IMPORTS = "start", "telemetry", "imports"
FIRST_STEP, STEPS, FIRST_CALL, CALLS = "first step", "steps", "first call", "calls"
#: Instead of the two above and ``BETWEEN``, where not all rollouts have spans: which of these it was is not known.
CALLS_AND_BETWEEN = "calls and between"
EVALUATION, SAVING = "evaluation", "saving"
BEFORE, BETWEEN, END, PROGRAM = "before", "between", "end", "program"

_PARTS = {
    Part.IMPORT: IMPORTS,
    Part.RENDEZVOUS: "rendezvous",
    Part.DATASET: "data set",
    Part.TOKENIZER: "tokenizer",
    Part.MODEL: "model",
    Part.ENGINE: "engine",
    Part.TRAINER: "trainer",
    Part.CHECKPOINT: "checkpoint",
}
#: Parts of loading: the first ones happen inside of the others.
LOADING_PARTS = ("rendezvous", "data set", "tokenizer", "model", "engine", "trainer", "checkpoint")
_STEP, _CALLS = "step", "call"
_OF_SPAN = {
    spans.RL_RANK_STEP.type: _STEP,
    spans.RL_DATA_WAIT.type: _STEP,
    spans.RL_EVALUATE.type: EVALUATION,
    spans.RL_CHECKPOINT.type: SAVING,
    spans.RL_ROLLOUT.type: _CALLS,
}
#: What a worker does in place of its driver.
_WORK = frozenset({_STEP, EVALUATION, SAVING})
#: Events that say which program it is.
FACTS = (events.RL_RUN_PROGRAM.name, events.RL_RUN_END.name)
#: Processes with steps, calls or parts that are told apart.
_PROCESSES = 64


class Share(NamedTuple):
    """Seconds of the run for one thing."""

    what: str
    seconds: float


class _ProcessTime:
    """What one process did; times in ns since the epoch."""

    def __init__(self) -> None:
        self.intervals: dict[str, Intervals] = defaultdict(Intervals)
        self.created = 0
        #: Until when otel-rl started, and how long that took, in ns.
        self.started = self.telemetry = 0
        self.ended = 0
        #: Begin and end of the earliest step.
        self.first_step: tuple[int, int] | None = None
        self.first_call: tuple[int, int] | None = None
        self.steps = 0
        #: True where the process has left out the spans of some rollouts.
        self.has_gaps = False

    def add_step(self, span: Span) -> None:
        self.steps += 1
        if self.first_step is None or span.start < self.first_step[0]:
            self.first_step = span.start, span.end

    def with_work_of(self, worker: _ProcessTime) -> _ProcessTime:
        """Return the same with what another process did: a driver of Ray leaves the training to a worker."""
        both = _ProcessTime()
        both.created, both.started, both.telemetry, both.ended = self.created, self.started, self.telemetry, self.ended
        both.first_step, both.steps, both.has_gaps = worker.first_step, worker.steps, worker.has_gaps
        own = {kind: stretches for kind, stretches in self.intervals.items() if kind not in _WORK}
        work = {kind: stretches for kind, stretches in worker.intervals.items() if kind in _WORK}
        both.intervals.update(own | work)
        return both

    def add_call(self, span: Span) -> None:
        # Calls overlap: a stretch of them may be the whole run.
        if self.first_call is None or span.start < self.first_call[0]:
            self.first_call = span.start, span.end


class RunTime:
    """Reads the spans of the leading process; memory does not depend on their number."""

    def __init__(self) -> None:
        self._processes: dict[Process, _ProcessTime] = {}
        #: From the first question for them to the next record.
        self._shares: list[Share] | None = None
        #: The worker that makes the steps in place of the leading process; empty where that makes them itself.
        self.worker = ""

    def _of(self, process: Process) -> _ProcessTime | None:
        found = self._processes.get(process)
        if found is None and len(self._processes) < _PROCESSES and not process.rank:
            found = self._processes[process] = _ProcessTime()
        return found

    def add_span(self, span: Span) -> None:
        """Take in a step, an evaluation, a checkpoint, a call, a part of the run or the run."""
        kind = _kind(span)
        time = self._of(span.process) if kind else None
        if time is None:
            return
        self._shares = None
        if span.name == spans.RL_RUN.type:
            time.ended = span.end
            return
        time.intervals[kind].add(span.start, span.end)
        if span.name == spans.RL_RANK_STEP.type:
            time.add_step(span)
        elif kind == _CALLS:
            time.add_call(span)

    def add_log(self, log: Log) -> None:
        """Take in which program it is, which has its creation."""
        if log.event not in FACTS or names.PROCESS_CREATION_TIME not in log.attributes:
            return
        time = self._of(log.process)
        if time is not None:
            self._shares = None
            get = log.attributes.get
            time.created = _nanoseconds(get(names.PROCESS_CREATION_TIME))
            time.started = time.created + round((seconds_or_none(get(names.RL_RUN_START_UP_DURATION)) or 0.0) * 1e9)
            time.telemetry = round((seconds_or_none(get(names.RL_TELEMETRY_START_UP_DURATION)) or 0.0) * 1e9)

    def shares(self, collected: Collected) -> list[Share]:
        """Return where the time of the leading process went, in the order in which it happened.

        Together they are the whole time. Empty where its start or its steps were not recorded.
        """
        if self._shares is None:
            self._shares = self._divided(collected)
        return self._shares

    def _divided(self, collected: Collected) -> list[Share]:
        latest = [process for process in self._processes if process.attempt not in collected.superseded]
        leading = [process for process in latest if self._processes[process].created]
        if not leading:
            return []
        process = max(leading, key=lambda process: (self._processes[process].steps, self._processes[process].created))
        trainer = max(latest, key=lambda process: self._processes[process].steps)
        time = self._processes[process]
        self.worker = ""
        if time.steps or not trainer.is_of_ray:
            trainer = process
        elif self._processes[trainer].steps:
            self.worker = trainer.label
            time = time.with_work_of(self._processes[trainer])
        if time.steps < thresholds.COMPLETE * _counted_steps(collected, trainer):
            if not (collected.steps.guessed and time.steps):
                return []
            # Of short ones some have spans, and those between follow each other without a gap.
            stretches = time.intervals[_STEP].stretches
            time.intervals[_STEP].add(stretches[0][0], stretches[-1][1])
        time.has_gaps = _leaves_rollouts_out(collected, trainer)
        start, end = time.created, max(time.ended, process.last, process.number("ended_unix_nano") or 0)
        return _divided(time, start, end) if end > start else []


def _kind(span: Span) -> str:
    if span.name == spans.RL_RUN.type:
        return "run"
    if span.name == spans.RL_RUN_PART.type:
        return _PARTS.get(str(span.attributes.get(names.RL_RUN_PART)), "")
    kind = _OF_SPAN.get(span.name, "")
    if kind:
        return kind
    is_call = names.GEN_AI_OPERATION_NAME in span.attributes or names.MCP_METHOD_NAME in span.attributes
    return _CALLS if is_call else ""


def _nanoseconds(text: object) -> int:
    try:
        return round(datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp() * 1e9)
    except ValueError:
        return 0


def _counted_steps(collected: Collected, process: Process) -> float:
    """Return how many steps the metrics of the process have, whatever a sampler left of the spans."""
    numbers = [series.value for series in collected.totals.of(metrics.RL_TRAIN_STEPS) if series.process is process]
    numbers += [
        series.spread.cell.count
        for series in collected.totals.of(metrics.RL_LOOP_DURATION)
        if series.process is process
    ]
    return max(numbers, default=0.0)


def _leaves_rollouts_out(collected: Collected, process: Process) -> bool:
    """Return whether spans of rollouts were left out because enough others of the step, or minute, were sent."""
    of_traces = process.mapping("dropped").get(Signal.TRACES)
    if isinstance(of_traces, dict) and of_traces.get(ROLLOUT_SPANS):
        return True
    return any(
        series.process is process and series.attributes.get(names.RL_TELEMETRY_DROP_REASON) == ROLLOUT_SPANS
        for series in collected.totals.of(metrics.RL_TELEMETRY_DROPPED)
        if series.value > 0
    )


def _divided(time: _ProcessTime, start: int, end: int) -> list[Share]:
    """Divide the time between two moments; what happens inside of something else counts as itself."""
    intervals = time.intervals
    work = intervals.get(_STEP) or intervals.get(_CALLS) or Intervals()
    first_name, name = (FIRST_STEP, STEPS) if intervals.get(_STEP) else (FIRST_CALL, CALLS)
    first = time.first_step or time.first_call
    first_end = first[1] if first else start
    begin, done = (work.stretches[0][0], work.stretches[-1][1]) if work else (end, end)
    if time.has_gaps and work and name == CALLS:
        name, first_end, work = CALLS_AND_BETWEEN, start, Intervals([(begin, done)])
    loading = [(part, intervals.get(part, Intervals())) for part in LOADING_PARTS]
    wanted = [
        (EVALUATION, intervals.get(EVALUATION, Intervals())),
        (SAVING, intervals.get(SAVING, Intervals())),
        (first_name, work.within(start, first_end)),
        (name, work.within(first_end, end)),
        (IMPORTS, intervals.get(IMPORTS, Intervals())),
        *loading,
        (TELEMETRY, Intervals([(time.started - time.telemetry, time.started)])),
        (START, Intervals([(start, time.started)])),
        (BEFORE if work else PROGRAM, Intervals([(start, begin)])),
        (BETWEEN, Intervals([(begin, done)])),
        (END, Intervals([(done, end)])),
    ]
    taken, seconds = Intervals(), {}
    for what, covered in wanted:
        own = covered.within(start, end).without(taken)
        seconds[what] = own.seconds
        taken = taken | own
    order = (
        START,
        TELEMETRY,
        IMPORTS,
        *LOADING_PARTS,
        BEFORE,
        PROGRAM,
        first_name,
        name,
        BETWEEN,
        EVALUATION,
        SAVING,
        END,
    )
    return [Share(what, seconds[what]) for what in order if seconds.get(what)]
