"""What is large enough to be a finding. Shares are of the steps' time, or of the rollouts' for what happens in them."""

from __future__ import annotations

#: A cost below this share is not reported; from the second on it is critical: half of the time is lost.
NOTABLE_SHARE, CRITICAL_SHARE = 0.05, 0.5
#: A part of the steps below this share of the whole run is not examined.
TINY = 0.002
#: Seconds that a step must lose to a late rank, and a step or a call to a change.
NOTABLE_SECONDS, NOTABLE_CHANGE = 0.005, 0.01
#: Seconds that a slower phase, step or rank must have cost altogether, as in the health rule on slow steps: a machine
#: that is busy for a while is no finding.
LOST_SECONDS = 3.0
#: A function, tool or phase is slower when it takes so many times as long as before.
SLOWER = 1.5
#: The same of whole steps and rollouts below a cause: they hold more than what became slower.
LONGER = 1.08
#: Differences of a share of calls (failed, retried) that are said, and the fewest such calls.
NOTABLE_RATE, FEWEST_FAILED = 0.05, 3
#: Calls of a tool in a row with the same arguments and result from which several rollouts, or one, are in a loop.
REPEATED_CALLS, MANY_REPEATED_CALLS = 5, 10
#: A tool, reward function or server is slower than its siblings when it takes so many times as long.
SLOWER_THAN_SIBLINGS, SLOWER_SERVER = 5.0, 1.5
#: Of two tools or functions one is always the slower. The cost of what is as it always was must be higher.
FEWEST_SIBLINGS, FEWEST_SERVERS, NOTABLE_SIBLING = 3, 2, 0.1
#: Calls that each sibling must have, and seconds below which a call of the others counts as that long.
FEWEST_CALLS, SHORT_CALL = 5, 0.001
#: Two changes within so many steps may be one.
TOGETHER = 3
#: A change explains another that is up to so many times as large; a longer step or rollout up to this many times, since
#: it may hold other things that have no place.
EXPLAINED, EXPLAINED_WHOLE = 1.5, 2.5
#: Share of the compared steps in which a late rank has most work, and the largest chance of so many by accident:
#: five of five steps of two ranks are just beyond it.
LATE_STEPS, LATE_BY_CHANCE = 0.6, 0.035
#: Share of a longer time for which a thread waited for a CPU, from which on the machine was busy.
OF_BUSY = 0.5
#: Share of the recorded items that may be lost before it is a warning.
LOST = 0.05
#: A run of at least so many seconds with a smaller share of it in steps is worth a notice.
LONG_RUN_SECONDS, FEW_STEPS_SHARE = 300.0, 0.5
#: Share of the generation time in which few rollouts are still active that is worth a notice, and its fewest steps.
LONG_TAIL, FEWEST_TAILS = 0.3, 5
#: Share of what was counted that must have come as spans: of fewer, what is missing would look like idle time.
COMPLETE = 0.95
#: Share of the trained tokens without an advantage from which it is a warning, and groups that it takes to say so.
IDLE_TOKENS, FEWEST_GROUPS = 0.5, 8
#: Rollouts of an engine that is behind before it is reported. Where no engine is current, versions behind or steps
#: without any that make a lag unusual: some loops sync every few steps.
FEWEST_STALE, USUAL_LAG = 4, 5
#: Log calls whose gradient norm is exactly 0 before it is a warning.
FEWEST_GRADIENTS = 10


def is_notable_number(number: float, of: float) -> bool:
    """Return whether so many of ``of`` calls, rollouts or samples are a finding: three of them, and 5 %."""
    return number >= FEWEST_FAILED and number >= NOTABLE_RATE * of
