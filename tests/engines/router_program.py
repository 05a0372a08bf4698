"""Rollouts at SGLang's router, with clients for HTTP; operations on all its workers, and new weights for one.

python router_program.py ROUTER WORKER MODEL
"""

import json
import sys

import httpx
import requests

import otel_rl

BODY = {"text": "one two", "sampling_params": {"max_new_tokens": 4, "temperature": 0}}
#: The program's own; nobody else's to change.
OWN_TRACE = {"traceparent": f"00-{1:032x}-{1:016x}-01"}


def streamed(url):
    """The text of a stream: each event has all that was said so far."""
    with otel_rl.rollout("streamed"):
        with httpx.stream("POST", f"{url}/generate", json={**BODY, "stream": True}, timeout=60) as response:
            events = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {")]
    return events[-1]["text"]


def main(url, worker, model):
    answers = []
    with otel_rl.step(iteration=1):
        for client in (httpx, requests):
            with otel_rl.rollout(f"by-{client.__name__}"):
                answers.append(client.post(f"{url}/generate", json=BODY, timeout=60).json()["text"])
        answers.append(streamed(url))
        with otel_rl.rollout("own-trace"):
            body = {**BODY, "external_trace_header": OWN_TRACE}
            # The router leaves fields out that it does not know, this one too (0.3.2).
            answers.append(requests.post(f"{worker}/generate", json=body, timeout=60).json()["text"])
        httpx.post(f"{url}/flush_cache", timeout=60)
        with otel_rl.phase("sync"):
            body = {"model_path": model, "weight_version": "3"}
            requests.post(f"{worker}/update_weights_from_disk", json=body, timeout=60).raise_for_status()
        with otel_rl.rollout("new-weights"):
            answers.append(httpx.post(f"{url}/generate", json=BODY, timeout=60).json()["text"])
    print(json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
