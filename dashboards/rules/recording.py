"""Recording rules: signals that need more than one series, computed once for boards and alerts."""

from __future__ import annotations

from dashboards.lib.promql import by, series
from dashboards.lib.rules import RecordingRule, RuleGroup
from otel_rl.semconv import attributes, metrics

#: Holds several training steps. A collective's wait is counted when it ends: one long step must not look like a stop.
STRAGGLER_WINDOW = "10m"
#: Reaches back to the start of the collapse. The entropy of a run is highest early.
ENTROPY_WINDOW = "1d"

_RANKS_OF_A_ROLE = by(attributes.RL_RUN_ID, attributes.RL_ROLE)
_EACH_RANK = by(attributes.RL_RUN_ID, attributes.RL_ROLE, attributes.RL_RANK)
_EACH_RUN = by(attributes.RL_RUN_ID)
_ON_ROLE = _RANKS_OF_A_ROLE.replace("by", "on", 1)

_WAIT = series(metrics.TORCH_DISTRIBUTED_COLLECTIVE_WAIT_TIME, run=None)
_ENTROPY = series(metrics.RL_TRAIN_ENTROPY, run=None)

WAIT_SHARE = RecordingRule(
    name="rl:rank:wait_share",
    description="Share of its time that a rank spends waiting in collectives, over all groups and operations",
    expr=f"sum {_EACH_RANK} (rate({_WAIT}[{STRAGGLER_WINDOW}]))",
)

# Every rank waits for a straggler, and a straggler waits for no rank. So it is the one rank that does not wait.
# The time is summed over all process groups first. Within a second group the straggler's partners arrive late too, and
# would be blamed. The median is that of all ranks: one rank that is merely fast cannot lift it. Of two ranks the median
# lies half way, hence the factor 2.
STRAGGLER_SCORE = RecordingRule(
    name="rl:rank:straggler_score",
    description="How much more of its time the typical rank spends waiting in collectives than this one",
    expr=f"""\
(
  quantile {_RANKS_OF_A_ROLE} (0.5, {WAIT_SHARE.name})
    - {_ON_ROLE} group_right ()
  {WAIT_SHARE.name}
)
  * {_ON_ROLE} group_left ()
(1 + (count {_RANKS_OF_A_ROLE} ({WAIT_SHARE.name}) == bool 2))
""",
)

LOST_SHARE = RecordingRule(
    name="rl:straggler:lost_share",
    description="Share of a step that the other ranks of a node lose to this rank",
    expr=f"max {by(attributes.RL_RUN_ID, attributes.RL_STRAGGLER_RANK)}"
    f" ({series(metrics.RL_STRAGGLER_LOST_SHARE, run=None)})",
    empty_when="no rank is late, or the run has one rank",
)

ENTROPY_LEVEL = RecordingRule(
    name="rl:run:entropy_level",
    description="The policy's entropy as a share of its own highest value",
    expr=f"""\
max {_EACH_RUN} ({_ENTROPY})
  /
(max {_EACH_RUN} (max_over_time({_ENTROPY}[{ENTROPY_WINDOW}])) > 0)
""",
)

GROUPS = (
    RuleGroup("otel-rl-ranks", (WAIT_SHARE, STRAGGLER_SCORE, LOST_SHARE)),
    RuleGroup("otel-rl-training", (ENTROPY_LEVEL,)),
)
