"""Rules for runs that log to Prometheus without the pack, under the names that their trainer gives its metrics.

The names are those of TRL, verl, OpenRLHF and others in ``otel_rl/health/rules.yaml``, with every character that
Prometheus does not take as an underscore. The thresholds are those of the health rules. A job and an instance stand for
a run. What needs a memory of the run, as a plateau does, has no such form.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dashboards.lib.names import alert_label
from dashboards.lib.rules import AlertRule, RecordingRule, RuleGroup
from otel_rl.health.rule_table import INPUTS, RULES
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

if TYPE_CHECKING:
    from collections.abc import Iterable

JOB = "job"
#: Values that a growth is compared with: the middle of so long a time before.
REFERENCE = "6h"
_ABSENT = "no run logs it without the pack"


def logged_names(name: str) -> list[str]:
    """Return the names in Prometheus of an input; keys with a free part are left out."""
    return _in_prometheus(INPUTS[name].keys)


def _in_prometheus(keys: Iterable[str]) -> list[str]:
    return sorted({re.sub(r"[^A-Za-z0-9_:]", "_", key) for key in keys if "*" not in key})


def _named(names: list[str]) -> str:
    # Transformers hands its keys to trackers with "train/" before them.
    return f'{{__name__=~"(train_)?({"|".join(names)})"}}'


def _logged(name: str) -> RecordingRule:
    expr = f"max by ({JOB}, instance) ({_named(logged_names(name))})"
    if INPUTS[name].not_beside:
        expr += f" unless on ({JOB}, instance) {_named(_in_prometheus(INPUTS[name].not_beside))}"
    return RecordingRule(
        name=f"rl:logged:{name}",
        description=f"{INPUTS[name].brief}, as a trainer logs it".capitalize(),
        expr=expr,
        empty_when=_ABSENT,
    )


def _growth(rule: RecordingRule) -> RecordingRule:
    return RecordingRule(
        name=f"{rule.name}_growth",
        description=f"{rule.description}, as a multiple of its middle value",
        expr=f"{rule.name} / (quantile_over_time(0.5, {rule.name}[{REFERENCE}]) > 0)",
        empty_when=_ABSENT,
    )


#: The inputs of the health rules that have a threshold without a memory.
LOGGED = tuple(
    map(_logged, ("kl", "entropy", "truncated", "zero_variance", "learning_rate", "gradient_norm", "step_time"))
)
KL, ENTROPY, TRUNCATED, ZERO_VARIANCE, LEARNING_RATE, GRADIENT_NORM, STEP_TIME = LOGGED
ENTROPY_LEVEL = RecordingRule(
    name="rl:logged:entropy_level",
    description="Entropy of the policy as a share of its highest value",
    expr=f"{ENTROPY.name} / (max_over_time({ENTROPY.name}[1d]) > 0)",
    empty_when=_ABSENT,
)
GRADIENT_GROWTH, STEP_GROWTH = _growth(GRADIENT_NORM), _growth(STEP_TIME)


def _alert(page: str, rule: RecordingRule, code: str, limit: str, sign: str, wait: str) -> AlertRule:
    return AlertRule(
        name=f"Logged{page}",
        signal=rule.name,
        condition=f"{sign} {RULES[code].limits[limit].value:g}",
        wait=wait,
        severity="warning",
        summary=f"{RULES[code].title}: job {alert_label(JOB)} at {alert_label('instance')}",
        description=f"{RULES[code].means} {rule.description} is {{{{ $value }}}}.",
        board=None,
        subject=JOB,
        page=page,
    )


LOGGED_ALERTS = (
    _alert("KLExplosion", KL, Code.P3_KL_EXPLOSION, "kl_warning", ">", "5m"),
    _alert("EntropyCollapse", ENTROPY_LEVEL, Code.P4_ENTROPY_COLLAPSE, "warning_share", "<", "10m"),
    _alert("AnswersTruncated", TRUNCATED, Code.P9_TRUNCATION, "warning", ">", "10m"),
    _alert("NoLearningSignal", ZERO_VARIANCE, Code.NO_SIGNAL, "few", ">", "15m"),
    _alert("LearningRateTooHigh", LEARNING_RATE, Code.LEARNING_RATE, "warning", ">", "5m"),
    _alert("GradientBlowUp", GRADIENT_GROWTH, Code.GRADIENT_NORM, "warning", ">", "10m"),
    _alert("SlowSteps", STEP_GROWTH, Code.P7_SLOW_STEP, "warning", ">", "15m"),
)

GROUPS = (RuleGroup("otel-rl-logged", (*LOGGED, ENTROPY_LEVEL, GRADIENT_GROWTH, STEP_GROWTH, *LOGGED_ALERTS)),)
