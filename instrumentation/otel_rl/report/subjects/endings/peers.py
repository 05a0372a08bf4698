"""Ranks that ended in order, or stood still, and so broke the connection on which others then failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.store.reader.end_states import EndState

if TYPE_CHECKING:
    from otel_rl.ranks.postmortem import Postmortem
    from otel_rl.report.core.finding import Finding
    from otel_rl.report.subjects.endings.process_end import ProcessEnd

#: Failures of a rank whose peer is gone, as gloo and NCCL have them.
_OF_CONNECTION = re.compile(r"by peer|gloo|nccl|remote process exited|socket|Broken pipe", re.IGNORECASE)


def lead(finding: Finding, ends: list[ProcessEnd], postmortem: Postmortem | None) -> None:
    """Begin the text of a failure of a connection with the ranks whose end, or standing still, has caused it."""
    if _OF_CONNECTION.search(finding.text) is not None:
        _by_gone(finding, ends)
        _by_missing(finding, postmortem)


def _by_gone(finding: Finding, ends: list[ProcessEnd]) -> None:
    """Name the ranks that had ended before."""
    failed = next((end for end in ends if [end.process.rank] == finding.ranks), None)
    if failed is None:
        return
    in_order = [end for end in ends if end.state is EndState.IN_ORDER and end.process.rank is not None]
    gone = [end for end in in_order if end.time < failed.time]
    if not gone:
        return
    steps = {end.iteration for end in gone}
    step = "" if steps == {None} else f" after step {max(step or 0 for step in steps)}"
    who = human.listed([end.process.label for end in gone])
    finding.text = f"{human.capital(who)} ended in order{step}, while others went on; {finding.text}"
    finding.evidence.insert(0, "A rank that has fewer batches leaves the loop first; the others wait for it and fail.")
    finding.ranks = [end.process.rank for end in gone if end.process.rank is not None]


def _by_missing(finding: Finding, postmortem: Postmortem | None) -> None:
    """Name the rank that the one that failed had waited for."""
    waits = postmortem.waits.waits if postmortem is not None else ()
    wait = next((wait for wait in waits if [wait.waiting.ring.rank] == finding.ranks), None)
    rank = wait.missing.ring.rank if wait is not None else None
    if wait is None or rank is None or rank in finding.ranks:
        return
    missing = wait.missing
    step = "" if missing.step is None else f" after step {missing.step}"
    finding.text = f"{human.capital(missing.label)} did not enter {wait.collective.words}{step}, and {finding.text}"
    finding.ranks = [rank]
