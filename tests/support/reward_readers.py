"""Samples and the rewards of steps as readers of a run have them, from records that a test has made."""

from __future__ import annotations

from otel_rl.report.core import step_rewards
from otel_rl.store.reader.processes import Process
from otel_rl.store.reader.records import Log
from otel_rl.store.tables import RunTables

PROCESS = Process("process", {"rank": 0, "attempt": "0"})
_SAMPLES = "SELECT sample.*, rank FROM sample JOIN process USING (process) ORDER BY time, sample"


def log_of(record, process=PROCESS):
    """A record of the SDK as the readers see it."""
    return Log(process, "s", record.event_name, record.timestamp, 9, "INFO", record.body, dict(record.attributes), "")


def tables_of(*logs):
    """The tables of a run with these records."""
    tables = RunTables()
    for log in logs:
        tables.add(log)
    tables.settle()
    return tables


def rows(*logs):
    """The samples of these records."""
    return list(tables_of(*logs).samples(_SAMPLES))


def calls_of(*logs):
    """The log calls that the report makes of the samples of these records, in order, with their processes."""
    tables = tables_of(*logs)
    return [call._replace(process=tables.process(call.process)) for call in step_rewards.log_calls(tables)]


def log_calls(recorded):
    """The same of what the program under test has recorded."""
    return calls_of(*map(log_of, recorded.events()))


def reward_means(recorded):
    """Step -> means of its rewards."""
    return {call.step: call.values for call in log_calls(recorded)}
