"""The tables of a run and their columns, as SQLite keeps them: the comments are part of what it shows.

Times are in ns since the epoch, durations in s, sizes in bytes. NULL stands for what was not recorded, and for NaN in
the column ``value``. Each table that has a ``process`` has a view with the plural of its name: its rows with the rank
and the label of the process, without those of attempts that a later one follows.
"""

from __future__ import annotations

import re

from otel_rl.semconv.attributes import RlPhaseValues as Phase

_PROCESS = """
    process INTEGER PRIMARY KEY, -- number of the process in these tables
    key TEXT, -- its folder, or what tells it from the others in the files of a collector
    label TEXT, -- its name on the page: "rank 3"
    rank INTEGER, -- global rank
    role TEXT, -- what it does in the job: trainer
    pid INTEGER, -- process id
    host TEXT,
    attempt TEXT, -- start of the job that it belongs to, as rl.run.attempt
    start INTEGER, -- number of that attempt among those of the run
    is_superseded INTEGER -- 1 where a later attempt follows
"""

_STEP = """
    id INTEGER PRIMARY KEY, -- number of the step of a rank in these tables
    process INTEGER,
    is_root INTEGER, -- 1 for the span of the whole step, which the steps of its ranks are below
    loop TEXT, -- name of the loop
    step INTEGER, -- its number
    told_rank INTEGER, -- rank that its span names; else that of the process counts
    source TEXT, -- who says where it begins and ends: guessed, logged or others
    started INTEGER,
    ended INTEGER,
    seconds REAL,
    waited REAL, -- seconds in collectives, at most all of them
    collecting REAL, -- seconds of garbage collection
    unseen INTEGER, -- collectives that were not seen
    cpu REAL, -- CPU seconds of the process
    own_cpu REAL, -- those of otel-rl
    cpu_wait REAL, -- seconds in which its thread was ready to run and had no CPU
    cpu_steps INTEGER, -- steps that these are of
    memory INTEGER, -- bytes of resident memory of the process at its end
    trace TEXT,
    span TEXT,
    parent TEXT,
    restarts INTEGER, -- how often the numbers of the loop in this process had gone back before
    uncovered REAL, -- seconds in no phase
    gap REAL, -- seconds since the step before
    gap_waited REAL, -- seconds of waits for data outside of steps that count to it
    idle REAL -- those of them in which the rank did not wait for data
"""

_PHASE_COLUMNS = """
    process INTEGER,
    name TEXT, -- sample, reward, train, ...
    step INTEGER, -- NULL outside of steps
    reward TEXT, -- reward function
    is_suspended INTEGER, -- 1 for the time in which a function waited for its caller
    is_of_rollout INTEGER, -- 1 for a phase of a rollout, which runs beside others
    operation TEXT, -- operation on an engine: sleep, update_weights, ...
    active REAL, -- seconds without those in which it was suspended
    started INTEGER,
    ended INTEGER,
    seconds REAL,
    trace TEXT,
    span TEXT,
    parent TEXT"""
# A number is never taken again: what is new has higher ones than all that was there.
_PHASE = f"""
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- number of the phase in these tables{_PHASE_COLUMNS},
    loop TEXT, -- loop of its step
    restarts INTEGER, -- as of that step
    counts_to INTEGER, -- step whose time it is; that of a wait for data is the step after it
    own REAL, -- seconds without the phases inside it, where calls at once count once
    beside REAL, -- seconds in which another phase of the same span ran at once
    is_inner INTEGER -- 1 inside of a phase of its own name
"""

_STEP_VALUE = """
    id INTEGER, -- step of a rank
    name TEXT, -- attribute of its span
    value REAL
"""

_COLLECTIVE = """
    id INTEGER, -- step of a rank, of whose slowest it is one
    operation TEXT,
    group_name TEXT,
    started INTEGER,
    ranks INTEGER, -- size of the group
    seconds REAL, -- as its caller saw it
    size INTEGER -- bytes
"""

_CALLEE = """
    callee INTEGER PRIMARY KEY, -- number of what is called
    kind TEXT, -- tool, served tool (the side of its server), model, agent, workflow, service or reward
    name TEXT, -- name of the tool, agent, workflow, service or reward function; operation and model
    place TEXT -- address and port of the server, '' where there is none
"""

_CALL = """
    process INTEGER, -- process that called
    callee INTEGER, -- what it called
    step INTEGER, -- step in which it called
    second INTEGER, -- without a step: second since the epoch in which the call ended
    started INTEGER,
    ended INTEGER,
    seconds REAL,
    error TEXT, -- kind of the error, '' where it went well or was cancelled
    outcome TEXT, -- 'cancelled', else how a tool ended
    is_fair INTEGER, -- 0 where its rollout was recorded since it is slow, failed or suspect: no part of means
    rollout TEXT, -- id of the rollout around it
    is_server INTEGER, -- 1 where another process had asked for the work
    in_engine INTEGER, -- 1 where an engine in the process answered
    queued REAL, -- seconds in the queue of the server, as that says
    times TEXT, -- JSON: times that an engine reported, as in rl.engine.* of the span
    first_chunk REAL, -- seconds until the first chunk of a streamed answer
    retries INTEGER, -- requests beyond the first one
    input_tokens INTEGER,
    output_tokens INTEGER,
    result_size INTEGER, -- bytes or characters that a tool answered
    estimated_tokens INTEGER, -- chunks of a streamed answer that does not say its tokens
    asked TEXT, -- JSON: names of the tools that the answer asks for
    invalid TEXT, -- JSON: those of them whose arguments are no JSON
    has_content INTEGER, -- 1 where what was said is recorded
    trace TEXT,
    span TEXT,
    parent TEXT -- span around it, '' for none
"""

_ROLLOUT = """
    process INTEGER, -- process that made it
    kind TEXT, -- rollout; or agent: a run of an agent or workflow that nothing else called
    id TEXT, -- its id, else the begin of its trace; of an agent its name too
    step INTEGER, -- step that it is of
    second INTEGER, -- without a step: second since the epoch in which it ended
    started INTEGER,
    ended INTEGER,
    seconds REAL,
    error TEXT, -- kind of the error, '' where it went well or was cancelled
    outcome TEXT, -- 'cancelled', or NULL
    is_fair INTEGER, -- 0 where it was recorded since it is slow, failed or suspect: no part of means
    reward REAL,
    belongs_to TEXT, -- its group, sample and policy, in words
    trace TEXT,
    span TEXT
"""

_PART = """
    process INTEGER,
    name TEXT, -- import, rendezvous, model, ...; run: all of it; operation: one that is no row of call
    started INTEGER,
    ended INTEGER,
    rows_before INTEGER, -- rows of a data set before it was mapped or filtered
    rows_after INTEGER -- rows that this left
"""

_SAMPLE = """
    sample INTEGER PRIMARY KEY, -- number of the sample in these tables
    process INTEGER, -- process in which it ended
    caller INTEGER, -- process id of the one that had submitted the call to a worker of its pool
    source TEXT, -- rollout, agent or trainer
    loop TEXT, -- name of the loop
    step INTEGER, -- step that it is of
    second INTEGER, -- without a step: second since the epoch
    time INTEGER, -- time of the record
    ended INTEGER, -- when it ended, of one in no step; else the time of the record
    ended_in INTEGER, -- step of the loop in which it ended
    restarts INTEGER, -- how often the numbers of the loop had begun again
    group_size INTEGER, -- samples of a group
    is_pending INTEGER, -- 1 for a copy made while its step was open
    estimator TEXT, -- formula of its advantage
    scored_by TEXT, -- reward functions that scored it, as JSON
    has_later_reward INTEGER, -- 1 where a reward came after the advantage was told
    id TEXT,
    sample_id TEXT, -- prompt or task
    group_id TEXT,
    environment TEXT, -- name of the environment that the rollout was of
    trace TEXT,
    status TEXT, -- finished, failed, cancelled or discarded
    discard_reason TEXT,
    stop_reason TEXT, -- why the last answer of a model stopped
    reward REAL,
    advantage REAL,
    seconds REAL, -- how long it took
    age REAL, -- seconds from when the trainer had asked for it to when it took it
    trained INTEGER, -- whether the trainer learned from it
    success INTEGER,
    evaluation INTEGER, -- 1 for a sample of an evaluation
    suspect INTEGER, -- 1 where something in it failed and its reward is the lowest
    turns,
    model_calls,
    model_errors,
    tool_calls,
    tool_errors,
    repeated_calls, -- most calls of a tool in a row with the same arguments and result, from 2 on
    repeated_tool TEXT, -- that tool
    span_errors, -- errors of its other spans
    input_tokens,
    output_tokens,
    judge_calls,
    judge_errors,
    judge_input_tokens,
    judge_output_tokens,
    tool_model_calls, -- model calls of its tools
    tool_model_errors,
    tool_model_input_tokens,
    tool_model_output_tokens,
    engines TEXT, -- engines that answered it
    more TEXT -- JSON of what has no column
"""

_SCORE = """
    sample INTEGER, -- NULL for a score outside of all rollouts
    process INTEGER, -- process that recorded it
    kind TEXT, -- score, or metric: a value that the program has named
    name TEXT, -- reward function or metric
    value REAL,
    weight REAL, -- of the function where it is not 1; NULL where the samples of its record have several
    has_weight INTEGER,
    step INTEGER,
    time INTEGER
"""

_CHANGE = """
    process INTEGER,
    time INTEGER,
    trace TEXT, -- what it names: trace and id of a rollout or one of them, else the id of a sample
    id TEXT,
    sample_id TEXT,
    sample INTEGER, -- sample that it is of; NULL as long as none is known, 0 where several are
    is_joined INTEGER, -- 1 where the sample has it
    estimator TEXT,
    body TEXT -- JSON: columns, values and weights
"""

_ENDED = """
    process INTEGER,
    source TEXT,
    step INTEGER,
    started INTEGER, -- samples that began since the record before
    left_out INTEGER, -- samples that ended and have no row: too many did at once
    changes_left_out INTEGER -- later scores and judgements that were dropped
"""

_ERROR = """
    process INTEGER,
    place TEXT, -- name of the span, of the event, or of the logger
    kind TEXT, -- type of the error
    message TEXT,
    step INTEGER,
    started INTEGER,
    ended INTEGER,
    span TEXT, -- failed span, or span in which the record was made
    parent TEXT, -- span around the failed one
    is_span INTEGER, -- 1 for a failed span, 0 for a log record
    is_server INTEGER, -- 1 where another process had asked for the work
    child INTEGER -- process id of the child that it is about
"""

_LOGGED_ERROR = """
    process INTEGER,
    time INTEGER,
    step INTEGER, -- last step that the process had begun when it logged the first one
    logger TEXT,
    kind TEXT, -- type of the exception, '' where none was logged
    place TEXT, -- file and line where it was raised, else that of the log call
    message TEXT, -- '' unless content is captured
    is_lost INTEGER, -- 1 for the exception of an asyncio task that nobody has awaited
    number INTEGER -- records at this place so far: the largest one counts
"""

_EXCEPTION = """
    process INTEGER, -- process in which nothing caught it
    kind TEXT, -- a type by which spans fail through it: its own, that of its root cause
    time INTEGER,
    step INTEGER,
    message TEXT, -- of the exception itself
    place TEXT -- file and line where its root cause was raised
"""

_EVENT = """
    process INTEGER,
    name TEXT, -- event name
    time INTEGER,
    step INTEGER,
    severity INTEGER, -- severity number of OpenTelemetry; 17 and more are errors
    severity_text TEXT,
    body TEXT, -- JSON
    attributes TEXT, -- JSON
    scope TEXT,
    trace TEXT,
    span TEXT
"""

_LOGGED_KEY = """
    logged_key INTEGER PRIMARY KEY, -- number of the key, of a loop in a process, in these tables
    process INTEGER,
    loop TEXT, -- name of the loop, '' where it has none
    key TEXT, -- as the program logs it
    is_guessed INTEGER, -- 1 where its steps are guessed
    is_made INTEGER, -- 1 where its values are made of the rewards of samples
    first INTEGER, -- when it was logged first
    number INTEGER, -- values with a step
    not_finite INTEGER, -- those of them that are NaN or infinite
    restarts INTEGER, -- how often its steps have gone back
    time INTEGER, -- when it was logged last
    last REAL,
    last_step INTEGER,
    lowest REAL, -- of those that are finite, the first one of equals
    lowest_step INTEGER,
    highest REAL,
    highest_step INTEGER
"""

_SCALAR = """
    logged_key INTEGER,
    restarts INTEGER, -- how often the steps of the key had gone back before
    step INTEGER, -- step for which it was logged
    first INTEGER, -- first of the steps that it is a mean of
    time INTEGER,
    value REAL -- NULL for NaN
"""

_POINT = """
    process INTEGER,
    metric TEXT,
    scope TEXT,
    series TEXT, -- what tells it from others of the metric: key of a trainer's value, else attributes: "shard=3"
    time INTEGER,
    value REAL,
    attributes TEXT -- JSON
"""

#: Table -> its columns.
TABLES = {
    "process": _PROCESS,
    "step": _STEP,
    "new_phase": f"{_PHASE_COLUMNS}\n",
    "phase": _PHASE,
    "step_value": _STEP_VALUE,
    "collective": _COLLECTIVE,
    "callee": _CALLEE,
    "call": _CALL,
    "rollout": _ROLLOUT,
    "part": _PART,
    "sample": _SAMPLE,
    "score": _SCORE,
    "change": _CHANGE,
    "ended": _ENDED,
    "error": _ERROR,
    "logged_error": _LOGGED_ERROR,
    "exception": _EXCEPTION,
    "event": _EVENT,
    "logged_key": _LOGGED_KEY,
    "scalar": _SCALAR,
    "point": _POINT,
}

_INDEXES = (
    "CREATE INDEX events_by_name ON event (name)",
    "CREATE INDEX values_by_step ON step_value (id, name)",
    "CREATE INDEX errors_by_span ON error (span, is_span, kind)",
    "CREATE INDEX errors_by_parent ON error (parent)",
    "CREATE INDEX exceptions_by_process ON exception (process, kind, time)",
    "CREATE INDEX scalars_by_key ON scalar (logged_key, restarts, step, value)",
    "CREATE INDEX steps_by_begin ON step (process, started) WHERE NOT is_root",
    f"""CREATE INDEX waits ON phase (process, ended)
        WHERE name = '{Phase.DATA_WAIT}' AND step IS NULL AND counts_to IS NULL""",
    "CREATE INDEX copies ON sample (process, source, loop) WHERE is_pending",
)


_SCALARS = """
CREATE VIEW scalars AS
SELECT key, loop, scalar.restarts, step, scalar.time, value, k.rank, label, attempt, start
FROM scalar JOIN logged_keys k USING (logged_key)"""


def columns(text: str) -> tuple[str, ...]:
    """Return the names of the columns of a table."""
    return tuple(re.findall(r"^ +(\w+)", text, re.MULTILINE))


def statements() -> list[str]:
    """Return what creates the tables and their views."""
    tables = [f"CREATE TABLE {name} ({text})" for name, text in TABLES.items()]
    views = [
        f"CREATE VIEW {name}s AS SELECT {name}.*, {_rank(name)}, p.label, p.attempt, p.start{_callee(name)}"
        f" WHERE NOT p.is_superseded{' AND NOT is_root' if name == 'step' else ''}"
        for name, text in TABLES.items()
        if name not in ("process", "new_phase") and "process" in columns(text)
    ]
    return [*tables, *views, _SCALARS, *_INDEXES]


def _rank(name: str) -> str:
    return "coalesce(told_rank, p.rank) AS rank" if name == "step" else "p.rank"


def _callee(name: str) -> str:
    if name != "call":
        return f" FROM {name} JOIN process p USING (process)"
    return ", kind, name, place FROM call JOIN process p USING (process) JOIN callee USING (callee)"
