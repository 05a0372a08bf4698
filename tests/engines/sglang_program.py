"""Rollouts at SGLang's server in all the ways of asking it, new weights between two steps, and what goes wrong.

python sglang_program.py SERVER MODEL
"""

import json
import sys
import uuid

import httpx
import openai
import requests

import otel_rl

GREEDY = {"max_new_tokens": 4, "temperature": 0}
BODY = {"text": "one two", "sampling_params": GREEDY}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "What is 1 + 2?"}], "max_tokens": 4, "temperature": 0}
#: More tokens than the model takes.
TOO_LONG = {**BODY, "text": "one two " * 900}
#: It goes on until it is aborted.
ENDLESS = {**BODY, "sampling_params": {"max_new_tokens": 900, "temperature": 0, "ignore_eos": True}, "stream": True}


def events(lines):
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def generated(client, url):
    with otel_rl.rollout(f"generate-{client.__name__}"):
        return client.post(f"{url}/generate", json=BODY, timeout=60).json()["text"]


def sampled(url):
    """Two samples of each of two prompts, with log-probabilities."""
    body = {"text": ["one two", "three"], "sampling_params": {**GREEDY, "n": 2}, "return_logprob": True}
    with otel_rl.rollout("samples"):
        return [one["text"] for one in httpx.post(f"{url}/generate", json=body, timeout=60).json()]


def chatted(client, url):
    with otel_rl.rollout(f"chat-{client.__name__}"):
        answer = client.post(f"{url}/v1/chat/completions", json=CHAT, timeout=60).json()
        return answer["choices"][0]["message"]["content"]


def chatted_by_openai(url):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    with otel_rl.rollout("chat-openai"):
        return client.chat.completions.create(**CHAT).choices[0].message.content


def streamed(url):
    with otel_rl.rollout("generate-stream"):
        with httpx.stream("POST", f"{url}/generate", json={**BODY, "stream": True}, timeout=60) as response:
            return events(response.iter_lines())[-1]["text"]


def streamed_chat(url):
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    with otel_rl.rollout("chat-stream"):
        response = requests.post(f"{url}/v1/chat/completions", json=body, timeout=60, stream=True)
        choices = [choice for event in events(map(bytes.decode, response.iter_lines())) for choice in event["choices"]]
        return "".join(choice["delta"].get("content") or "" for choice in choices)


def aborted(url):
    """The reason for the end of a stream that another request aborts after its first event."""
    request = uuid.uuid4().hex
    with otel_rl.rollout("aborted"):
        with httpx.stream("POST", f"{url}/generate", json={**ENDLESS, "rid": request}, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            httpx.post(f"{url}/abort_request", json={"rid": request}, timeout=60).raise_for_status()
            return events(lines)[-1]["meta_info"]["finish_reason"]["type"]


def failed(url):
    with otel_rl.rollout("refused"):
        status = httpx.post(f"{url}/generate", json=TOO_LONG, timeout=60).status_code
    with otel_rl.rollout("refused-stream"):
        with httpx.stream("POST", f"{url}/generate", json={**TOO_LONG, "stream": True}, timeout=60) as response:
            return [status, response.status_code, *("error" in event for event in events(response.iter_lines()))]


def bring(url, model, version):
    """Pause, load the weights of a folder, go on; as trainers do that share a disk with the server."""
    requests.post(f"{url}/pause_generation", json={}, timeout=60).raise_for_status()
    body = {"model_path": model, "weight_version": version}
    answer = requests.post(f"{url}/update_weights_from_disk", json=body, timeout=60)
    httpx.post(f"{url}/continue_generation", json={}, timeout=60).raise_for_status()
    return [answer.status_code, answer.json()["success"]]


def main(url, model):
    """Answers by name, of all that is the same each time."""
    answers = {}
    with otel_rl.step(iteration=1):
        answers["text"] = [generated(client, url) for client in (httpx, requests)] + [streamed(url)]
        answers["samples"] = sampled(url)
        answers["chat"] = [chatted(client, url) for client in (httpx, requests)] + [streamed_chat(url)]
        answers["chat"].append(chatted_by_openai(url))
        with otel_rl.phase("sync"):
            answers["updates"] = [bring(url, model, "7"), bring(url, f"{model}-of-nobody", "8")]
    with otel_rl.step(iteration=2):
        answers["again"] = [generated(httpx, url), chatted(requests, url)]
        answers["aborted"], answers["failed"] = aborted(url), failed(url)
    print(json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
