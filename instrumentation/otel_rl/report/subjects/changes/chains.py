"""The chain from a cause to what follows: the first link is the finding, the others stand below it."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

from otel_rl.report.core import thresholds
from otel_rl.report.core.links import LEADS_TO, Link
from otel_rl.report.subjects.changes.series import SeriesKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.report.core.finding import Finding

#: Place in the chain of what takes longer, or fails.
OF_KIND = {
    **dict.fromkeys((*(kind for kind in SeriesKind if kind.is_of_model), SeriesKind.FIRST_CALL), Link.ENGINE),
    **dict.fromkeys((SeriesKind.TOOL, SeriesKind.REWARD), Link.TOOL),
}


#: What to look at if several scores change at the same step.
_ANSWERS = "What these scores share: the answers of before and after, side by side."


@dataclass(frozen=True, slots=True)
class Linked:
    """A finding with its place in the chain.

    ``onset`` is a step, or a second where ``by_step`` is False; ``grows`` is True for what goes on to grow.
    """

    finding: Finding
    link: Link
    onset: int
    by_step: bool
    grows: bool = False


def chained(changes: Iterable[Linked]) -> list[Finding]:
    """Return the first links; what follows from one of them is among its symptoms."""
    roots: list[Linked] = []
    for one in sorted(changes, key=lambda one: (one.link, one.onset)):
        cause = next((root for root in roots if _explains(root, one)), None)
        if cause is None:
            roots.append(one)
        else:
            cause.finding.symptoms.append(one.finding)
            if cause.link == one.link == Link.SCORE and _ANSWERS not in cause.finding.look_at:
                cause.finding.look_at = [_ANSWERS, *cause.finding.look_at]
    return [root.finding for root in roots]


def _explains(cause: Linked, effect: Linked) -> bool:
    after = effect.onset - cause.onset if cause.by_step == effect.by_step else nan
    near = abs(after) <= thresholds.TOGETHER
    if cause.link == effect.link:
        # Two tools are two causes; two curves of one kind that move from one step on are one fact.
        is_of_one = cause.finding.subject != "" and cause.finding.subject == effect.finding.subject
        return near and (is_of_one or (cause.link >= Link.TOKENS and cause.grows == effect.grows))
    if effect.link not in LEADS_TO.get(cause.link, ()):
        return False
    if cause.grows:
        # It shows in a duration when it is large enough, and nothing jumps since it grows.
        return after >= -thresholds.TOGETHER and (effect.grows or effect.link in (Link.LONGER, Link.MEMORY))
    return near
