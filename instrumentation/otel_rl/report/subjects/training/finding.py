"""Whether training changes anything: a gradient norm of exactly 0 in every log call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.health.curves import Curves
from otel_rl.report.core import human, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.subjects import workload
from otel_rl.report.subjects.health import replay
from otel_rl.report.subjects.training import scalars
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.core.curves import Curve

_WHAT, _CODE = "gradients of exactly 0", "no_gradient"
_NORMS = frozenset({"gradient_norm", "loop_gradient_norm"})


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return a warning where no log call has a gradient; rewards without a difference, and the rule, say more."""
    curve = _norm(collected)
    if curve is None or curve.number < thresholds.FEWEST_GRADIENTS or any(curve.y):
        return []
    codes = Code.NO_SIGNAL, Code.NO_UPDATE
    if any(part.code in codes for of_subject in known.values() for finding in of_subject for part in finding.chain()):
        return []
    text = f"The gradient norm is exactly 0 in all {human.amount(curve.number, 'log call')}: nothing is learned."
    finding = Finding(_CODE, Severity.WARNING, text, "training", chart=curve.name, onset=round(curve.x[0]))
    finding.look_at += ["labels: all masked, or cut off?", "parameters: all frozen?", "the tokens of one batch"]
    return [finding]


def _norm(collected: Collected) -> Curve | None:
    """Return the curve of the gradient norm, under whatever key it was logged."""
    logged, inputs = scalars.of_run(collected).logged, Curves(replay.rules(collected)[0].keys)
    known = {key: of_key for key in logged if (of_key := inputs.input_of(key)) is not None and of_key[0] in _NORMS}
    return logged[min(known, key=lambda key: known[key][1])] if known else None


def checks(collected: Collected) -> list[Check]:
    """Return whether gradient norms were logged."""
    codes = (_CODE, Code.NO_SIGNAL)
    curve, program = _norm(collected), workload.of(collected)
    if curve is not None:
        least = thresholds.FEWEST_GRADIENTS
        zeros = sum(not norm for norm in curve.y)
        return [Check.of(_WHAT, curve.number, least, "log call", codes, series=(curve.name,), seen=zeros)]
    if program.trains:
        return [Check.not_recorded(_WHAT, "no norm of the gradient was logged", codes)]
    return [Check.not_applicable(_WHAT, program.without_steps, codes)]
