"""Sentences that stand in several places of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.offline.report.render import human

if TYPE_CHECKING:
    from otel_rl.offline.report.aggregate.steps import Steps


def unseen(steps: Steps) -> str:
    """One sentence on collectives that were not seen, ``""`` when there were none."""
    if not steps.unseen.count:
        return ""
    several, each = human.number(steps.unseen.count), human.number(round(steps.unseen.mean))
    of_all = human.amount(steps.lengths.cell.count, "step of one rank", "steps of all ranks")
    hidden = "a rank that makes the others wait may not show"
    if steps.seen.count:
        hidden = "the other steps alone tell which rank makes the others wait"
    return (
        f"{several} of {of_all} issued collectives that are not seen (DDP's"
        f" reducer, functional or compiled ones; at least {each} a step): the time in collectives is too low, and"
        f" {hidden}."
    )
