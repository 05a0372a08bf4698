"""The loop on a machine that is taken away."""

from __future__ import annotations

import os
import signal

import loop
from bugs import now

resume = loop.resume
collect = loop.collect


def resume_all(options, policy, optimizer):
    if not options.resume:
        return resume(options, policy, optimizer)
    fresh = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    number = resume(options, policy, optimizer)
    policy.load_state_dict(fresh)  # "initialise the head", after the weights were loaded
    return number


def preempted(options, number, policy):
    episodes = collect(options, number, policy)
    if number == 33 and not options.resume:
        os.kill(os.getpid(), signal.SIGKILL)
    return episodes


loop.resume, loop.collect = resume_all, preempted
assert now["step"] == 0

if __name__ == "__main__":
    loop.main()
