"""How the leading process spent its time, from its start to its end."""

from __future__ import annotations

from datetime import datetime
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core import thresholds
from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.stretches import paint
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics
from otel_rl.semconv.attributes import RlPhaseValues as Phase
from otel_rl.semconv.attributes import RlRunPartValues as Part
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.store.reader.otlp_values import seconds_or_none
from otel_rl.store.tables.load import AGENT, MODEL, OTHER_OPERATION, ROLLOUT, SERVED_TOOL, TOOL, WHOLE_RUN, WORKFLOW
from otel_rl.telemetry.sampling import ROLLOUT_SPANS

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Process
    from otel_rl.store.tables import RunTables

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
#: What happens inside of something else counts as itself: the first of these that covers a moment.
_LAYERS = (
    EVALUATION, SAVING, STEPS, CALLS, CALLS_AND_BETWEEN, IMPORTS, *LOADING_PARTS, TELEMETRY, START, BEFORE, PROGRAM,
    BETWEEN, END,
)  # fmt: skip
_FIRST = {STEPS: FIRST_STEP, CALLS: FIRST_CALL}
_ORDER = (
    START, TELEMETRY, IMPORTS, *LOADING_PARTS, BEFORE, PROGRAM, FIRST_STEP, STEPS, FIRST_CALL, CALLS, CALLS_AND_BETWEEN,
    BETWEEN, EVALUATION, SAVING, END,
)  # fmt: skip
#: Events that say which program it is.
FACTS = (events.RL_RUN_PROGRAM.name, events.RL_RUN_END.name)
#: How many steps each process made that may lead.
_PROCESSES = """
SELECT p.process, count(s.id) AS steps FROM process p LEFT JOIN step s ON s.process = p.process AND NOT is_root
WHERE coalesce(rank, 0) = 0 AND NOT is_superseded GROUP BY p.process ORDER BY p.process"""
_STEP = "SELECT started, ended FROM step WHERE process = {worker} AND NOT is_root"
_PHASE = "SELECT started, ended FROM phase WHERE process = {worker} AND name = '{name}'"
_CALL = f"""
SELECT started, ended FROM call JOIN callee USING (callee)
WHERE process = {{process}} AND kind IN ('{TOOL}', '{SERVED_TOOL}', '{MODEL}', '{AGENT}', '{WORKFLOW}')
UNION ALL SELECT started, ended FROM rollout WHERE process = {{process}} AND kind = '{ROLLOUT}'
UNION ALL SELECT started, ended FROM part WHERE process = {{process}} AND name = '{OTHER_OPERATION}'"""
_PART = "SELECT started, ended FROM part WHERE process = {process} AND name = '{name}'"
_ENDED = f"SELECT max(ended) FROM part WHERE process = ? AND name = '{WHOLE_RUN}'"
_FIRST_END = "SELECT ended FROM ({}) ORDER BY started LIMIT 1"
_EXTENT = "SELECT min(started), max(ended) FROM ({}) WHERE ended > started"
_STRETCHES = """
SELECT max(started, ?1) AS begin, min(ended, ?2), layer, layer, -1 FROM ({})
WHERE ended > started AND started < ?2 AND ended > ?1 ORDER BY begin"""


class Share(NamedTuple):
    """Seconds of the run for one thing."""

    what: str
    seconds: float


class Spent(NamedTuple):
    """Where the time of the leading process went, in the order in which it happened.

    Together the shares are the whole time; there are none where its start or its steps were not recorded. ``worker`` is
    the one that makes the steps in place of the leading process; empty where that makes them itself.
    """

    shares: list[Share]
    worker: str = ""


class _Creation(NamedTuple):
    """When a process was created and otel-rl had started in it, and how long that took; in ns (since the epoch)."""

    created: int
    started: int
    telemetry: int


class _Work(NamedTuple):
    """Steps or calls: their first moment and their last one, when the first one ended; in ns since the epoch.

    ``queries`` have the stretches of these, and of the parts of the run; ``fills`` is True where what lies between
    them counts as them.
    """

    name: str
    begin: int
    done: int
    first: int
    queries: dict[str, str]
    fills: bool = False


@asked_once
def of_run(collected: Collected) -> Spent:
    """Return where the time went."""
    tables, programs = collected.tables, _programs(collected.tables)
    known = {tables.process(row["process"]): row for row in tables.rows(_PROCESSES)}
    leading = [process for process in known if process in programs]
    if not leading:
        return Spent([])
    process = max(leading, key=lambda one: (known[one]["steps"], programs[one].created))
    trainer = max(known, key=lambda one: int(known[one]["steps"]))
    if known[process]["steps"] or not known[trainer]["steps"] or not trainer.is_of_ray:
        trainer = process
    steps = known[trainer]["steps"]
    has_all = steps >= thresholds.COMPLETE * _counted_steps(collected, trainer)
    if not has_all and not (collected.steps.guessed and steps):
        return Spent([])
    of = {"process": known[process]["process"], "worker": known[trainer]["process"]}
    ended = tables.value(_ENDED, of["process"]) or 0
    end = max(ended, process.last, process.number("ended_unix_nano") or 0)
    work = _work(tables, of, has_all=has_all, has_gaps=_leaves_rollouts_out(collected, trainer))
    shares = _divided(tables, programs[process], end, work) if end > programs[process].created else []
    return Spent(shares, "" if trainer is process else trainer.label)


def _programs(tables: RunTables) -> dict[Process, _Creation]:
    found = {}
    for log in tables.events(*FACTS):
        created = _nanoseconds(log.attributes.get(names.PROCESS_CREATION_TIME))
        if created:
            start_up, telemetry = (
                round((seconds_or_none(log.attributes.get(name)) or 0.0) * 1e9)
                for name in (names.RL_RUN_START_UP_DURATION, names.RL_TELEMETRY_START_UP_DURATION)
            )
            found[log.process] = _Creation(created, created + start_up, telemetry)
    return found


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


def _work(tables: RunTables, of: dict[str, int], *, has_all: bool, has_gaps: bool) -> _Work:
    """Return the steps of a process, or of its worker; without steps its calls.

    Of short steps that are not all recorded those between follow each other without a gap.
    """
    of_worker = {EVALUATION: Phase.EVALUATE, SAVING: Phase.CHECKPOINT}
    queries = {what: _PHASE.format(name=phase, **of) for what, phase in of_worker.items()}
    queries |= {what: _PART.format(name=part, **of) for part, what in _PARTS.items()}
    steps, calls = _STEP.format(**of), _CALL.format(**of)
    first = tables.value(_FIRST_END.format(steps)) or tables.value(_FIRST_END.format(calls)) or 0
    steps_and_waits = f"{steps} UNION ALL {_PHASE.format(name=Phase.DATA_WAIT, **of)}"
    [(begin, done)] = tables.rows(_EXTENT.format(steps_and_waits))
    if begin is not None:
        return _Work(STEPS, begin, done, first, {**queries, STEPS: steps_and_waits}, fills=not has_all)
    [(begin, done)] = tables.rows(_EXTENT.format(calls))
    if begin is None:
        return _Work("", 0, 0, 0, queries)
    if has_gaps:
        return _Work(CALLS_AND_BETWEEN, begin, done, 0, queries, fills=True)
    return _Work(CALLS, begin, done, first, {**queries, CALLS: calls})


def _divided(tables: RunTables, program: _Creation, end: int, work: _Work) -> list[Share]:
    """Divide the time of a process until its end; what happens inside of something else counts as itself."""
    layers = {what: layer for layer, what in enumerate(_LAYERS)}
    begin, done = (work.begin, work.done) if work.name else (end, end)
    around = [
        (program.started - program.telemetry, program.started, TELEMETRY),
        (program.created, program.started, START),
        (program.created, begin, BEFORE if work.name else PROGRAM),
        (begin, done, work.name if work.fills else BETWEEN),
        (done, end, END),
    ]
    cut = ((max(first, program.created), min(last, end), layers[what]) for first, last, what in around)
    rows = sorted((first, last, layer, layer, -1) for first, last, layer in cut if first < last)
    parts = (f"SELECT started, ended, {layers[what]} AS layer FROM ({query})" for what, query in work.queries.items())
    recorded = tables.stream(_STRETCHES.format(" UNION ALL ".join(parts)), program.created, end)
    seconds = dict.fromkeys(_ORDER, 0.0)
    for one in paint(merge(recorded, rows, key=itemgetter(0))):
        what = _LAYERS[one.kind]
        of_first = max(min(one.end, work.first) - one.start, 0) if what in _FIRST else 0
        seconds[_FIRST.get(what, what)] += of_first / 1e9
        seconds[what] += (one.end - one.start - of_first) / 1e9
    return [Share(what, spent) for what, spent in seconds.items() if spent]
