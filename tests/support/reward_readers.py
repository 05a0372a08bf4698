"""The rewards of steps as the health rules get them: live, and from the records."""

from __future__ import annotations

from otel_rl.report.core.reward_curves import RewardCurves
from otel_rl.store.reader.processes import Process
from otel_rl.store.reader.records import Log

PROCESS = Process("process", {"rank": 0, "attempt": "0"})


def log_calls(recorded):
    """The log calls that the report makes of the records of trajectories, in order."""
    curves, calls = RewardCurves(), []
    for record in recorded.events():
        log = Log(
            PROCESS, "s", record.event_name, record.timestamp, 9, "INFO", record.body, dict(record.attributes), ""
        )
        calls += curves.add_log(log)
    return [*calls, *curves.close()]


def reward_means(recorded):
    """Step -> means of its rewards."""
    return {log.attributes["rl.loop.iteration"]: log.body for log in log_calls(recorded)}
