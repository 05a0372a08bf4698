"""Alerts: each says what is wrong, since when, and which page tells what to do."""

from __future__ import annotations

from dashboards.lib.names import alert_label
from dashboards.lib.rules import AlertRule, RuleGroup
from dashboards.rules.recording import ENTROPY_LEVEL, LOST_SHARE, STRAGGLER_SCORE, STRAGGLER_WINDOW
from otel_rl.semconv import attributes

_RUN = alert_label(attributes.RL_RUN_ID)
_RANK = alert_label(attributes.RL_RANK)

#: A tenth of every other rank's time lost to one rank.
STRAGGLER_LIMIT = 0.1
#: A tenth of the run's own highest entropy: the policy has all but stopped exploring.
ENTROPY_LIMIT = 0.1

RANK_STRAGGLING = AlertRule(
    name="RankStraggling",
    signal=STRAGGLER_SCORE.name,
    condition=f"> {STRAGGLER_LIMIT}",
    wait="10m",
    severity="warning",
    summary=f"Rank {_RANK} of run {_RUN} keeps the other ranks waiting",
    description=(
        "The other ranks spend {{ $value | humanizePercentage }} more of their time waiting in collectives than rank "
        f"{_RANK}, over {STRAGGLER_WINDOW}: it arrives last, and the whole run is that much slower."
    ),
    board="otel-rl-ranks-collectives",
)

#: The ranks of one node, by the gauge of the pack. A rank that is late no more is stale within five minutes.
RANK_LATE = AlertRule(
    name="RankLate",
    signal=LOST_SHARE.name,
    condition=f"> {STRAGGLER_LIMIT}",
    wait="2m",
    severity="warning",
    summary=f"Rank {alert_label(attributes.RL_STRAGGLER_RANK)} of run {_RUN} is late again and again",
    description=(
        "The other ranks of its node lose {{ $value | humanizePercentage }} of a step to it. The event rl.straggler in"
        " the run's logs names the operation, the phase, and the ranks that are late beside it."
    ),
    board="otel-rl-ranks-collectives",
)

ENTROPY_COLLAPSE = AlertRule(
    name="EntropyCollapse",
    signal=ENTROPY_LEVEL.name,
    condition=f"< {ENTROPY_LIMIT}",
    wait="10m",
    severity="warning",
    summary=f"The policy of run {_RUN} has nearly stopped exploring",
    description=(
        "Entropy is at {{ $value | humanizePercentage }} of its highest value in this run: samples of one prompt "
        "become alike, their advantages vanish, and further steps teach little."
    ),
    board="otel-rl-run-overview",
)

GROUPS = (RuleGroup("otel-rl-alerts", (RANK_STRAGGLING, RANK_LATE, ENTROPY_COLLAPSE)),)
