"""Ranks that ended in order, or stood still, and so broke the connection on which others then failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.store.reader.end_states import EndState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.ranks.postmortem.waits import RankWait
    from otel_rl.report.core.finding import Finding
    from otel_rl.report.subjects.endings.process_end import ProcessEnd

#: Failures of a rank whose peer is gone, as gloo and NCCL have them.
_OF_CONNECTION = re.compile(r"by peer|gloo|nccl|remote process exited|socket|Broken pipe", re.IGNORECASE)


def led_by_gone(finding: Finding, ends: list[ProcessEnd]) -> Finding:
    """Return the failure; if it is that of a connection, its text begins with the ranks that had ended before."""
    failed = next((end for end in ends if [end.process.rank] == finding.ranks), None)
    if failed is None or _OF_CONNECTION.search(finding.text) is None:
        return finding
    in_order = [end for end in ends if end.state is EndState.IN_ORDER and end.process.rank is not None]
    gone = [end for end in in_order if end.time < failed.time]
    if not gone:
        return finding
    steps = {end.iteration for end in gone}
    step = "" if steps == {None} else f" after step {max(step or 0 for step in steps)}"
    who = human.listed([end.process.label for end in gone])
    finding.text = f"{who[:1].upper()}{who[1:]} ended in order{step}, while others went on; {finding.text}"
    finding.evidence.insert(0, "A rank that has fewer batches leaves the loop first; the others wait for it and fail.")
    finding.ranks = [end.process.rank for end in gone if end.process.rank is not None]
    return finding


def led_by_missing(finding: Finding, waits: Iterable[RankWait]) -> Finding:
    """Return the failure; if its rank had waited for another one, its text begins with that, which is the cause."""
    wait = next((wait for wait in waits if [wait.waiting.ring.rank] == finding.ranks), None)
    if wait is None or not _OF_CONNECTION.search(finding.text):
        return finding
    missing = wait.missing
    rank = missing.ring.rank
    if rank is None or rank in finding.ranks:
        return finding
    step = "" if missing.step is None else f" after step {missing.step}"
    who = f"{missing.label[:1].upper()}{missing.label[1:]}"
    finding.text = f"{who} did not enter {wait.collective.words}{step}, and {finding.text}"
    finding.ranks = [rank]
    return finding
