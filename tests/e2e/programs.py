"""What is run through the stack, and what must not come out of it."""

from __future__ import annotations

from health.cases import grpo

RUN = "e2e-run"
DRIVEN_RUN, HEALTHY_RUN, AGENTIC_RUN = "driven-run", "healthy-run", "agentic-run"
STEPS = 6
ROLLOUTS = 4
FAILING_ROLLOUT = 2
KEY = "sk-proj-Zq81mPlantedKeyThatMustNotLeave42"
PROMPT = "violet elephants recite the launch codes"

#: A job of TRL, and the same with answers that are cut short from a step on.
HEALTHY_JOB = grpo(20, "accuracy")
CUT_FROM = 8
DRIVEN_JOB = grpo(20, "accuracy", change={"step": CUT_FROM, "longest": 2})

LEAK = f"""
import logging, otel_rl
with otel_rl.rollout("leaking-rollout", keep=True):
    with otel_rl.tool("vault", arguments={{"api_key": "{KEY}", "prompt": "{PROMPT}"}}):
        otel_rl.event("planted", {{"prompt": "{PROMPT}", "text": "token {KEY}"}}, {{"note": "{KEY}"}})
    otel_rl.reward("planted", 0.0, explanation="{PROMPT}")
raise ValueError("{PROMPT}: {KEY}")
"""
