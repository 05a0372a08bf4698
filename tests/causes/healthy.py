"""Healthy runs: nothing in them is worse than a notice."""

from __future__ import annotations

from causes.cases import Case


def _resumed(after: int, *more: str) -> tuple[tuple[str, ...], ...]:
    return ("--stop-after", str(after), *more), ("--resume", *more)


CASES: tuple[Case, ...] = (
    Case("healthy-loop", "loop.py", quick=True),
    Case("healthy-loop-answers-grow", "loop.py", ("--grow",)),
    Case("healthy-loop-cosine", "loop.py", ("--schedule", "cosine", "--seed", "1")),
    Case("healthy-loop-uneven", "loop.py", ("--uneven", "--seed", "2")),
    Case("healthy-loop-evaluates", "loop.py", ("--eval-every", "3", "--save-every", "10", "--seed", "3")),
    Case("healthy-loop-few-steps", "loop.py", ("--steps", "8", "--seed", "4")),
    Case("healthy-loop-becomes-harder", "loop.py", ("--curriculum", "30", "--seed", "5")),
    Case("healthy-loop-busy-machine", "loop.py", ("--seed", "6"), beside=2, beside_after=14.0),
    Case(
        "healthy-loop-resumed",
        "loop.py",
        ("--save-every", "5", "--schedule", "warmup"),
        attempts=_resumed(30),
        statuses=(0, 0),
    ),
    Case("healthy-rollouts", "rollouts.py", quick=True),
    Case("healthy-rollouts-ramp", "rollouts.py", ("--ramp", "25", "--seed", "1")),
    Case("healthy-rollouts-slow-tool", "rollouts.py", ("--slow-tool", "0.15", "--steps", "40", "--seed", "2")),
    Case("healthy-grpo-evaluates", "grpo.py", ("MODEL", "--eval-every", "8", "--save-every", "20")),
    Case(
        "healthy-grpo-warmup", "grpo.py", ("MODEL", "--schedule", "cosine", "--warmup", "10", "--seed", "8"), beside=1
    ),
    Case("healthy-dpo", "dpo.py", ("MODEL", "--eval-every", "10", "--schedule", "linear")),
    Case(
        "healthy-sft-resumed",
        "sft.py",
        ("MODEL", "--save-every", "10", "--warmup", "5", "--schedule", "linear", "--workers", "1"),
        attempts=_resumed(20),
        statuses=(0, 0),
    ),
    Case("healthy-ddp-uneven", "ddp.py", ("--uneven", "--eval-every", "15"), ranks=2),
    Case("healthy-fsdp-curriculum", "fsdp.py", ("--curriculum", "25", "--save-every", "20"), ranks=2),
    Case("healthy-agent", "agent.py"),
    Case("healthy-sb3-episodes-grow", "sb3.py", ("--longest", "500", "--iterations", "40", "--eval-every", "10")),
)
