"""What wakes people about a run itself: it hangs, it or some of its ranks died, it failed, its telemetry is incomplete.

Whoever was killed says nothing, so the rules remember for a day when each rank was heard last, and whether it has ended
in order since (``rl.run.ended``). An alert on that stays until the rank reports again, as after a restart, or until the
run ends.
"""

from __future__ import annotations

from dashboards.lib.names import alert_label
from dashboards.lib.promql import Match, by, increased, on, remembered, series
from dashboards.lib.rules import AlertRule, RecordingRule, RuleGroup
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import RlRunEndStatusValues as Status

_RUN = alert_label(attributes.RL_RUN_ID)
_OVERVIEW, _RANKS = "otel-rl-run-overview", "otel-rl-ranks-collectives"
_EACH_RUN, _ON_RUN = by(attributes.RL_RUN_ID), on(attributes.RL_RUN_ID)
_RANK_OF_RUN = (attributes.RL_RUN_ID, attributes.RL_ROLE, attributes.RL_RANK)
_EACH_RANK, _ON_RANK = by(*_RANK_OF_RUN), on(*_RANK_OF_RUN)

#: Seconds without metrics: twenty exports at the default interval.
SILENT = 300
#: Seconds between the last sign of a process and its end, which are exported together.
_TOGETHER = 60
#: What ends the other ranks because one was killed does so within this time; a later end is that of the run.
_IN_CONSEQUENCE = 300
#: Seconds for which a failure is told.
_FAILURE = 3600
#: Counters of single events are looked at over this window, so that an alert stays visible for as long.
EVENTS = "15m"
#: Reasons for which something that was recorded has not arrived; the others of docs/delivery.md are about its values.
UNDELIVERED = (
    "queue_full",
    "deferral_full",
    "export_failed",
    "rejected",
    "not_opened",
    "unencodable",
    "exit_timeout",
    "store_full",
    "disk_full",
    "store_unwritable",
    "store_removed",
    "collection_timeout",
)

#: A program with an SDK of its own has no run id, and nobody tells its end.
_OF_A_RUN = Match(attributes.RL_RUN_ID, "", "!=")
_ENDED = metrics.RL_RUN_ENDED
_HAS_STATUS = Match(attributes.RL_RUN_END_STATUS, "", "!=")
_REPORTING = series(metrics.RL_TELEMETRY_INSTRUMENTOR_STATUS, run=None)

RUN_START = RecordingRule(
    name="rl:run:start_seconds",
    description="When a run that reports was heard first, or first again after half an hour",
    expr=f"""\
(
  last_over_time(rl:run:start_seconds[30m])
    or
  min {_EACH_RUN} (timestamp({_REPORTING}))
)
  and {_ON_RUN}
{_REPORTING}
""",
)
SEEN = RecordingRule(
    name="rl:rank:seen_seconds",
    description="When a rank, a driver or a leading process was heard last, for a day",
    expr=remembered("rl:rank:seen_seconds", f"max {_EACH_RANK} (timestamp({series(_ENDED, run=_OF_A_RUN)}))"),
)
ENDED = RecordingRule(
    name="rl:rank:ended_seconds",
    description="When it ended in order, by the way of its end, for a day",
    expr=remembered(
        "rl:rank:ended_seconds",
        f"max {by(*_RANK_OF_RUN, attributes.RL_RUN_END_STATUS)}"
        f" (timestamp({series(_ENDED, _HAS_STATUS, run=_OF_A_RUN)}))",
    ),
    empty_when="no process has ended",
)
SILENCE = RecordingRule(
    name="rl:run:silence_seconds",
    description="How long nothing of a run has been heard",
    expr=f"time() - max {_EACH_RUN} ({SEEN.name})",
)
_IS_OVER = f"max {_EACH_RUN} ({ENDED.name}) + {_TOGETHER} >= {_ON_RUN} max {_EACH_RUN} ({SEEN.name})"
_SILENT = f"> {SILENT} unless {_ON_RUN} ({_IS_OVER})"


def _ended(*matches: Match) -> str:
    return f"{ENDED.name}{{{', '.join(map(str, matches))}}}"


_IN_ORDER = Match(attributes.RL_RUN_END_STATUS, Status.FAILED, "!=")
#: What leads a run is rank 0, of the trainers where there are several roles, or a driver without a rank. A driver may
#: end its workers by force when it ends itself; rank 0 is ended by its launcher when another rank was killed.
_RANK_0 = _ended(Match(attributes.RL_RANK, "0"), Match(attributes.RL_ROLE, "(trainer|driver)?", "=~"), _IN_ORDER)
_DRIVER = _ended(Match(attributes.RL_RANK, ""), _IN_ORDER)
_RUN_ENDED = f"max {_EACH_RUN} ({_RANK_0} - {_IN_CONSEQUENCE} or {_DRIVER} + {_TOGETHER})"
_NUMBERED = Match(attributes.RL_RANK, "", "!=")
_NO_ROLE, _A_ROLE = Match(attributes.RL_ROLE, ""), Match(attributes.RL_ROLE, "", "!=")
#: A rank whose role was not known at first has gone on under its role.
_NAMED_SINCE = (
    f"{SEEN.name}{{{_NUMBERED}, {_NO_ROLE}}}"
    f" and {on(attributes.RL_RUN_ID, attributes.RL_RANK)} {SEEN.name}{{{_NUMBERED}, {_A_ROLE}}}"
)
RANKS_GONE = RecordingRule(
    name="rl:run:ranks_gone",
    description="Ranks that report no more and have not ended in order, of a run of which something was heard since",
    expr=f"""\
(
  count {_EACH_RUN} (
    ({SEEN.name}{{{_NUMBERED}}} < time() - {SILENT})
      unless
    ({_NAMED_SINCE})
      unless {_ON_RANK}
    (max {_EACH_RANK} ({ENDED.name}) + {_TOGETHER} >= {_ON_RANK} {SEEN.name})
      unless {_ON_RANK}
    ({SEEN.name} < {_ON_RUN} group_left () {_RUN_ENDED})
  )
    unless {_ON_RUN}
  ({SILENCE.name} {_SILENT})
)
  or
0 * {SILENCE.name}
""",
)
RANKS_FAILED = RecordingRule(
    name="rl:run:ranks_failed",
    description="Processes that an uncaught exception has ended within an hour and that report no more",
    expr=f"""\
count {_EACH_RUN} (
  (max {_EACH_RANK} ({_ended(Match(attributes.RL_RUN_END_STATUS, Status.FAILED))}) > time() - {_FAILURE}) + {_TOGETHER}
    >= {_ON_RANK}
  {SEEN.name}
)
  or
0 * {SILENCE.name}
""",
)
# Ranks of other roles may go on. Of one role they wait for each other, so that one that evaluates excuses all.
HANG_SHARE = RecordingRule(
    name="rl:role:hang_share",
    description="Share of the ranks of a role whose watchdogs see no progress",
    expr=f"avg {by(attributes.RL_RUN_ID, attributes.RL_ROLE)}"
    f" (max {_EACH_RANK} ({series(metrics.RL_HANG_ACTIVE, run=None)}))",
)
_REASON = (attributes.RL_TELEMETRY_SIGNAL, attributes.RL_TELEMETRY_DROP_REASON)
_LOST = series(
    metrics.RL_TELEMETRY_DROPPED,
    Match(attributes.RL_TELEMETRY_DROP_REASON, "|".join(UNDELIVERED), "=~"),
    run=None,
)
DROPPED = RecordingRule(
    name="rl:run:dropped_items",
    description="Items that were recorded and did not arrive, within a quarter of an hour",
    expr=f"sum {by(attributes.RL_RUN_ID, *_REASON)} ({increased(_LOST, EVENTS)})",
    empty_when="all of it arrived",
)

RUN_HUNG = AlertRule(
    name="RunHung",
    signal=HANG_SHARE.name,
    condition=">= 1",
    wait="1m",
    severity="critical",
    summary=f"Run {_RUN} hangs",
    description="{{ $value | humanizePercentage }} of its ranks make no progress, for longer than ten steps take. "
    "`otel-rl postmortem` on the run's folder says who waits for whom.",
    board=_RANKS,
)
RANK_GONE = AlertRule(
    name="RankGone",
    signal=RANKS_GONE.name,
    condition="> 0",
    wait="1m",
    severity="critical",
    summary=f"Ranks of run {_RUN} are gone",
    description="{{ $value }} ranks report no more and have not ended in order: killed, or cut off. "
    "`otel-rl postmortem` on the run's folder says who stopped first and where.",
    board=_RANKS,
)
RUN_SILENT = AlertRule(
    name="RunSilent",
    signal=SILENCE.name,
    condition=_SILENT,
    wait="1m",
    severity="critical",
    summary=f"Run {_RUN} is silent and has not ended",
    description="Nothing of it was heard for {{ $value | humanizeDuration }}: all its processes were killed at once, "
    "as when its only node runs out of memory, or what they send does not arrive.",
    board=_OVERVIEW,
)
RUN_FAILED = AlertRule(
    name="RunFailed",
    signal=RANKS_FAILED.name,
    condition="> 0",
    wait="1m",
    severity="warning",
    summary=f"Run {_RUN} has failed",
    description="An uncaught exception has ended {{ $value }} of its processes. The event rl.process.exception in the "
    "run's logs has the stack.",
    board=_OVERVIEW,
)
TELEMETRY_DROPPED = AlertRule(
    name="TelemetryDropped",
    signal=DROPPED.name,
    condition="> 0",
    wait="1m",
    severity="warning",
    summary=f"Run {_RUN} loses {alert_label(attributes.RL_TELEMETRY_SIGNAL)}",
    description=f"About {{{{ $value | humanize }}}} items were dropped within {EVENTS}, reason "
    f"{alert_label(attributes.RL_TELEMETRY_DROP_REASON)}: boards and report lack them.",
    board=_OVERVIEW,
)

RECORDING_GROUPS = (
    RuleGroup("otel-rl-runs", (RUN_START, SEEN, ENDED, SILENCE, RANKS_GONE, RANKS_FAILED, HANG_SHARE, DROPPED)),
)
GROUPS = (RuleGroup("otel-rl-run-alerts", (RUN_HUNG, RANK_GONE, RUN_SILENT, RUN_FAILED, TELEMETRY_DROPPED)),)
