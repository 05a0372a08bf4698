"""Rollouts whose rewards come from servers; arguments are their addresses: with middleware twice, then without."""

from __future__ import annotations

import sys

import httpx

import otel_rl

asgi, wsgi, plain = sys.argv[1:]


def ask(url, answer, **headers):
    return httpx.post(url, json={"answer": answer}, headers=headers, timeout=20).status_code


for name, url in (
    ("asgi", f"{asgi}/score"),
    ("asgi, in a thread", f"{asgi}/sync"),
    ("wsgi", f"{wsgi}/score"),
    ("wsgi, streamed", f"{wsgi}/stream"),
    ("plain", f"{plain}/score"),
):
    with otel_rl.rollout(name):
        ask(url, "0.5")
        ask(url, "2")
with otel_rl.rollout("failed"):
    ask(f"{wsgi}/score", "fail")
    otel_rl.reward("own", 0.0)
for traceparent in ("", "junk", "00-0-0-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"):
    # Outside of all rollouts, with headers that nobody can read.
    for server in (asgi, wsgi):
        print(ask(f"{server}/score", "1", traceparent=traceparent, baggage="=;,rl.rollout.id"))
