"""When the waiting times of the ranks say that one of them may be late."""

from __future__ import annotations

import pytest

from otel_rl.ranks.stragglers.suspicion import LIMIT, TIMES, Suspicion

SECOND = 10**9


class Ranks:
    """Ranks that end a step each second."""

    def __init__(self, number: int = 3) -> None:
        self.suspicion = Suspicion()
        self.now = dict.fromkeys(range(number), 0)
        self.waited = dict.fromkeys(range(number), 0)
        self.look()

    def look(self) -> bool:
        self.suspicion.add({rank: (self.now[rank], self.waited[rank]) for rank in self.now})
        return self.suspicion.is_raised

    def step(self, *shares: float) -> bool:
        """Each rank waits its share of this step."""
        for rank, share in enumerate(shares):
            self.now[rank] += SECOND
            self.waited[rank] += int(share * SECOND)
        return self.look()


def test_the_same_rank_must_wait_least_again_and_again():
    ranks = Ranks()
    assert [ranks.step(0.2, 0.0, 0.2) for _ in range(TIMES)] == [False] * (TIMES - 1) + [True]
    assert not ranks.step(0.0, 0.2, 0.2), "another one"


def test_uneven_work_of_changing_ranks_is_not_suspicious():
    ranks = Ranks()
    for step in range(30):
        shares = [0.3, 0.3, 0.3]
        shares[step % 3] = 0.0
        assert not ranks.step(*shares)


def test_ranks_that_wait_alike_are_suspicious_until_a_comparison_has_found_nothing():
    """On a slow network they do; and where they wait for each other in turn."""
    ranks = Ranks()
    assert [ranks.step(0.6, 0.6 - LIMIT / 2, 0.6) for _ in range(TIMES)][-1]
    ranks.suspicion.clear()
    assert not any(ranks.step(0.6, 0.6 - LIMIT / 2, 0.6) for _ in range(10))
    assert [ranks.step(0.8, 0.8, 0.8) for _ in range(TIMES)][-1], "much longer than what was found harmless"


def test_two_ranks_of_which_now_the_one_waits_least_and_now_the_other_are_suspicious():
    ranks = Ranks(4)
    steps = [(0.0, 0.02, 0.3, 0.3), (0.02, 0.0, 0.3, 0.3)] * 2
    assert [ranks.step(*shares) for shares in steps][-1]


def test_a_suspicion_is_over_when_all_wait_alike():
    ranks = Ranks()
    assert [ranks.step(0.2, 0.0, 0.2) for _ in range(TIMES)][-1]
    assert not ranks.step(0.0, 0.0, 0.0)


def test_nothing_is_concluded_before_every_rank_has_ended_a_step():
    ranks = Ranks()
    for _ in range(2 * TIMES):
        ranks.now[0] += SECOND
        ranks.now[2] += SECOND
        ranks.waited[0] += SECOND // 2
        assert not ranks.look()


@pytest.mark.parametrize("change", ["came", "went"])
def test_a_rank_that_comes_or_goes_begins_anew(change):
    ranks = Ranks()
    assert [ranks.step(0.2, 0.0, 0.2) for _ in range(TIMES)][-1]
    if change == "came":
        ranks.now[3] = ranks.waited[3] = 0
    else:
        del ranks.now[2]
    assert not ranks.look()


def test_one_rank_alone_is_never_late():
    ranks = Ranks(1)
    assert not any(ranks.step(0.9) for _ in range(10))
