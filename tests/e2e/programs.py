"""What is run through the stack, and what must not come out of it."""

from __future__ import annotations

RUN = "e2e-run"
STEPS = 6
ROLLOUTS = 4
FAILING_ROLLOUT = 2
KEY = "sk-proj-Zq81mPlantedKeyThatMustNotLeave42"
PROMPT = "violet elephants recite the launch codes"

LEAK = f"""
import logging, otel_rl
with otel_rl.rollout("leaking-rollout", keep=True):
    with otel_rl.tool("vault", arguments={{"api_key": "{KEY}", "prompt": "{PROMPT}"}}):
        otel_rl.event("planted", {{"prompt": "{PROMPT}", "text": "token {KEY}"}}, {{"note": "{KEY}"}})
    otel_rl.reward("planted", 0.0, explanation="{PROMPT}")
raise ValueError("{PROMPT}: {KEY}")
"""
