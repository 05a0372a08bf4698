"""Rollouts at SGLang's router, with clients for HTTP, and an operation on all its workers."""

import json
import sys

import httpx
import requests

import otel_rl

BODY = {"text": "one two", "sampling_params": {"max_new_tokens": 4}}


def main(url):
    answers = []
    with otel_rl.step(iteration=1):
        for client in (httpx, requests):
            with otel_rl.rollout(f"by-{client.__name__}"):
                answers.append(client.post(f"{url}/generate", json=BODY, timeout=60).json()["text"])
        httpx.post(f"{url}/flush_cache", timeout=60)
    print(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1])
