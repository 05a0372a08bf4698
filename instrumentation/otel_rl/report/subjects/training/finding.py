"""Whether training changes anything: a gradient norm of exactly 0 in every log call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects import workload
from otel_rl.report.subjects.training import scalars
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known

_WHAT, _CODE, _KEY = "gradients of exactly 0", "no_gradient", "grad_norm"


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return a warning where no log call has a gradient; rewards without a difference say more."""
    curve = scalars.of_run(collected).curve(_KEY)
    if curve is None or curve.number < thresholds.FEWEST_GRADIENTS or any(curve.y):
        return []
    if any(finding.code == Code.NO_SIGNAL for of_subject in known.values() for finding in of_subject):
        return []
    text = f"The gradient norm is exactly 0 in all {human.amount(curve.number, 'log call')}: nothing is learned."
    finding = Finding(_CODE, Severity.WARNING, text, "training", chart=_KEY, onset=round(curve.x[0]))
    finding.look_at += ["labels: all masked, or cut off?", "parameters: all frozen?", "the tokens of one batch"]
    return [finding]


def checks(collected: Collected) -> list[Check]:
    """Return whether gradient norms were logged."""
    codes = (_CODE, Code.NO_SIGNAL)
    curve, program = scalars.of_run(collected).curve(_KEY), workload.of(collected)
    if curve is not None:
        return [Check.of(_WHAT, curve.number, thresholds.FEWEST_GRADIENTS, "log call", codes)]
    if program.trains:
        return [Check.not_recorded(_WHAT, f"{_KEY} was not logged", codes)]
    return [Check.not_applicable(_WHAT, program.without_steps, codes)]
