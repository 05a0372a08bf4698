"""The loop, whose reference is renewed now and then."""

from __future__ import annotations

import loop
from bugs import now

update = loop.update


def with_reference(policy, optimizer, first, episodes):
    return update(policy, optimizer, policy if now["step"] >= 27 else first, episodes)


loop.update = with_reference

if __name__ == "__main__":
    loop.main()
