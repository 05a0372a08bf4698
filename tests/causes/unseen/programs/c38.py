"""The loop with a filter: answers that are too short for a verifier are not trained on."""

from __future__ import annotations

import random
import statistics

import loop
from bugs import now

import otel_rl

LEAST = 3
update = loop.update


def accepted(episode: loop.Episode) -> bool:
    shortest = LEAST if now["step"] < 33 else 3 * LEAST
    return len(episode.answer) >= shortest + random.choice((-1, 0, 0, 1))


def filtered(policy, optimizer, first, episodes):
    kept = [one for one in episodes if accepted(one)] or episodes[:1]
    otel_rl.metric("filter/accepted_share", len(kept) / len(episodes))
    otel_rl.metric("filter/mean_length", statistics.fmean(len(one.answer) for one in kept))
    return update(policy, optimizer, first, kept)


loop.update = filtered

if __name__ == "__main__":
    loop.main()
