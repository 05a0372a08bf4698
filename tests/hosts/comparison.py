"""Outcomes of a suite's tests without and with instrumentation: where they differ, and how often again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Outcomes = Mapping[str, str]

#: The outcome of a test that only the other mode ran.
MISSING = "missing"
RERUNS = 3


class Difference(NamedTuple):
    """One test whose outcome depends on the mode."""

    test: str
    plain: str
    instrumented: str
    #: In how many of the :data:`RERUNS` the outcomes differed again.
    seen_again: int = 0


def differences(plain: Outcomes, instrumented: Outcomes) -> list[Difference]:
    """The tests with two outcomes, in order of their names."""
    return [
        Difference(test, plain.get(test, MISSING), instrumented.get(test, MISSING))
        for test in sorted({*plain, *instrumented})
        if plain.get(test, MISSING) != instrumented.get(test, MISSING)
    ]


def with_reruns(first: Iterable[Difference], reruns: Sequence[tuple[Outcomes, Outcomes]]) -> list[Difference]:
    """The differences of the first runs, each with the number of reruns in which it differed again."""
    again = Counter(each.test for plain, instrumented in reruns for each in differences(plain, instrumented))
    return [each._replace(seen_again=again[each.test]) for each in first]


class Verdict(NamedTuple):
    """The differences of a suite by what follows from them."""

    #: In every rerun, and the table does not name it: the comparison fails.
    new: list[Difference]
    #: In every rerun, and the table names it with a reason.
    known: list[Difference]
    #: Not in every rerun: it depends on more than the mode.
    unsettled: list[Difference]
    #: Named in the table, and the test ran with the same outcome in both modes: the entry has to go.
    stale: list[str]


def verdict(found: Iterable[Difference], known: Mapping[str, str], ran: Outcomes) -> Verdict:
    """Sort the differences; ``known`` maps a test to a reason, ``ran`` holds the plain run."""
    found = list(found)
    settled = [each for each in found if each.seen_again == RERUNS]
    differing = {each.test for each in found}
    return Verdict(
        new=[each for each in settled if each.test not in known],
        known=[each for each in settled if each.test in known],
        unsettled=[each for each in found if each.seen_again < RERUNS],
        stale=[test for test in known if test not in differing and ran.get(test, "skipped") != "skipped"],
    )


def counts(outcomes: Outcomes) -> dict[str, int]:
    """Number of tests by outcome, in order of the words."""
    return dict(sorted(Counter(outcomes.values()).items()))
