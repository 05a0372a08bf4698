"""Calls that hang at this moment, as findings: what, for whom, since when, and what is late for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.live.standing import LiveFinding
from otel_rl.ranks.postmortem import chain_text
from otel_rl.report.core import human
from otel_rl.report.core.finding import Severity
from otel_rl.semconv.attributes import RlCallKindValues as Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.ranks.postmortem.chains import WaitChain

CODE = "hanging_call"
_TITLES = {
    Kind.TOOL: "Tool {} hangs",
    Kind.MODEL: "Model call {} hangs",
    Kind.ENGINE: "Engine call {} hangs",
    Kind.SERVICE: "Service {} hangs",
    Kind.REQUEST: "Request {} hangs",
}
_NANOSECONDS = 1e9


def finding(chain: WaitChain, now: int, hang_seconds: float) -> LiveFinding:
    """Return a finding about the end of ``chain``, ``now`` in ns; critical where its rank makes no progress."""
    call, state = chain.end.call, chain.rank
    seconds = max(now - call.since, 0) / _NANOSECONDS
    stands = state is not None and not chain.is_meanwhile and 0 < hang_seconds <= state.seconds_without_progress
    phases = f" ({' > '.join(chain.phases)})" if chain.phases else ""
    waits = human.amount(chain.others + 1, "call")
    return LiveFinding(
        CODE,
        Severity.CRITICAL if stands else Severity.WARNING,
        _TITLES.get(call.kind, "{} hangs").format(call.name),
        f"{human.capital(chain_text.sentence(chain, now))}.",
        # A rank that does something else is not late for it.
        [] if state is None or state.ring.rank is None or chain.is_meanwhile else [state.ring.rank],
        f"step {state.step}{phases}" if state is not None and state.step is not None else "",
        state.step if state is not None else None,
        call.since,
        f"{waits} {'waits' if not chain.others else 'wait'}, {human.duration(seconds)} so far",
    )


def are_about(calls: Iterable[LiveFinding], name: str | None) -> bool:
    """Return whether one of ``calls`` is about calls of ``name``."""
    return any(call.title in {title.format(name) for title in _TITLES.values()} for call in calls)


def explain(standing: Iterable[LiveFinding], calls: list[LiveFinding]) -> list[LiveFinding]:
    """Return ``calls`` and what they do not explain of ``standing``: a rank that waits for a call is late for that."""
    left = []
    for late in standing:
        cause = next((call for call in calls if call.ranks and set(late.ranks) & set(call.ranks)), None)
        if cause is None:
            left.append(late)
            continue
        cause.evidence.append(late.text)
        cause.cost = late.cost or cause.cost
        if late.severity.order < cause.severity.order:
            cause.severity = late.severity
    return [*calls, *left]
