"""Alerts on the health of a run: one for each rule of the pack.

The pack judges each step (``rl.health``, docs/health.md). It has warm-up and hysteresis, so these alerts wait only for
two exports.
"""

from __future__ import annotations

from dashboards.lib.names import alert_label
from dashboards.lib.promql import Match, by, series
from dashboards.lib.rules import AlertRule, RecordingRule, RuleGroup
from otel_rl.health.rule_table import RULES
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

_RUN = alert_label(attributes.RL_RUN_ID)

#: Values of the gauge.
UNOBSERVED, HEALTHY, WARNING, CRITICAL = -1, 0, 1, 2

HEALTH = RecordingRule(
    name="rl:run:health",
    description="State of each health rule: 0 healthy, 1 warning, 2 critical, -1 unobserved",
    expr=f"max {by(attributes.RL_RUN_ID, attributes.RL_HEALTH_CODE)} ({series(metrics.RL_HEALTH, run=None)})",
)


def _alert(name: str, code: str, summary: str, *, critical_only: bool = False) -> AlertRule:
    return AlertRule(
        name=name,
        signal=HEALTH.name,
        only=Match(attributes.RL_HEALTH_CODE, code),
        condition=f">= {CRITICAL if critical_only else WARNING}",
        wait="1m",
        severity="critical" if critical_only else "warning",
        summary=f"Run {_RUN}: {summary}",
        description=f"{RULES[code].means} State {{{{ $value }}}} of the rule {code} (1 warning, 2 critical). The event "
        "rl.health.changed in the run's logs has the first step and the values.",
        board="otel-rl-run-overview",
    )


#: The warning of P4 is EntropyCollapse, which needs no pack.
HEALTH_ALERTS = (
    _alert("RewardPlateau", Code.P1_PLATEAU, "the reward and the policy stand still"),
    _alert("RewardOscillation", Code.P2_OSCILLATION, "the reward swings and updates are clipped"),
    _alert("KLExplosion", Code.P3_KL_EXPLOSION, "the policy has run away"),
    _alert("PolicyCollapsed", Code.P4_ENTROPY_COLLAPSE, "the policy no longer explores", critical_only=True),
    _alert("RewardHacking", Code.P5_REWARD_HACKING, "the reward rises and what it stands for does not"),
    _alert("ValidationCollapse", Code.P6_VALIDATION_COLLAPSE, "the evaluation has fallen far below its best"),
    _alert("SlowSteps", Code.P7_SLOW_STEP, "steps take much longer than before"),
    _alert("GarbledOutput", Code.P8_GARBLED_OUTPUT, "answers are empty, aborted or repeat themselves"),
    _alert("AnswersTruncated", Code.P9_TRUNCATION, "answers are cut at the length limit"),
    _alert("NoLearningSignal", Code.NO_SIGNAL, "nearly all groups score alike"),
    _alert("LearningRateTooHigh", Code.LEARNING_RATE, "the learning rate is too high"),
    _alert("GradientBlowUp", Code.GRADIENT_NORM, "the norm of the gradient has grown manyfold"),
    _alert("NonFiniteValues", Code.NON_FINITE, "values of the training are NaN or infinite"),
    _alert("StaleSamples", Code.STALENESS, "samples come from a policy of many versions ago"),
    _alert("EngineDrift", Code.ENGINE_DRIFT, "engine and trainer disagree on the probabilities of samples"),
    _alert("RewardCollapse", Code.REWARD_COLLAPSE, "the reward of the training has fallen far below its best"),
    _alert("LossDivergence", Code.LOSS_DIVERGENCE, "the loss has left its range manyfold"),
    _alert("EntropyExplosion", Code.ENTROPY_EXPLOSION, "the entropy is manyfold of what it was"),
    _alert("ImplausibleKL", Code.KL_ESTIMATE, "the KL is negative or always the same"),
    _alert("NoUpdate", Code.NO_UPDATE, "learning rate or gradient is exactly zero"),
    _alert("PreferenceNotLearnt", Code.PREFERENCE, "the policy does not prefer the chosen answers"),
    _alert("UnscoredSamples", Code.UNSCORED, "samples get no finite score"),
    _alert("FailingCalls", Code.FAILING_CALLS, "calls of a tool, model or service fail"),
    _alert("SlowCalls", Code.SLOW_CALLS, "calls of a tool, model or service have become slow"),
    _alert("StaleEngine", Code.STALE_ENGINE, "engines answer with weights that fall behind"),
)

RECORDING_GROUPS = (RuleGroup("otel-rl-health", (HEALTH,)),)
GROUPS = (RuleGroup("otel-rl-health-alerts", HEALTH_ALERTS),)
