"""The watched program of the soak: one kind of load, sampled while it runs. Started by `soak.py`."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import otel_rl

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = os.sysconf("SC_PAGE_SIZE")
CALLS_PER_ROLLOUT = 100


def steps() -> Callable[[int], None]:
    """Run a training step without a model: a rollout with a tool and a reward, the phases, a logged value."""

    def step(number: int) -> None:
        with otel_rl.step(number):
            with (
                otel_rl.phase("sample"),
                otel_rl.rollout(sample_id=number, group_id=number // 8, policy_version=number),
                otel_rl.tool("search"),
            ):
                pass
            with otel_rl.phase("reward"):
                otel_rl.reward("exact_match", 1.0)
            with otel_rl.phase("train"):
                for part in ("forward", "backward", "optimizer"):
                    with otel_rl.phase(part):
                        pass
            otel_rl.metric("loss", 1 / (number + 1))
            otel_rl.event("soak.step", {"number": number})

    return step


def calls() -> Callable[[int], None]:
    """Make calls in turn: tool, model, reward, metric. Every one has a name that was never seen before."""
    from otel_rl.inference.calls import InferenceCall
    from otel_rl.inference.requests import CHAT, ModelRequest
    from otel_rl.inference.servers import server
    from otel_rl.telemetry import Scope

    scope = Scope("soak")

    def tool(number: int) -> None:
        with otel_rl.tool(f"tool-{number}") as call:
            if number % 8 == 0:
                call.fail(f"failure-{number}")

    def model(number: int) -> None:
        request = ModelRequest(CHAT, server("127.0.0.1", number), {"model": f"model-{number}"})
        inference = InferenceCall(scope, request)
        inference.enter()
        inference.leave()
        inference.answer.observe({"usage": {"prompt_tokens": 10, "completion_tokens": 20}})
        inference.finish()

    def reward(number: int) -> None:
        otel_rl.reward(f"reward-{number}", 0.5, label=f"label-{number}")

    def metric(number: int) -> None:
        otel_rl.metric(f"key-{number}", float(number))

    kinds = (tool, model, reward, metric)
    rollout: Any = None

    def call(number: int) -> None:
        nonlocal rollout
        if number % CALLS_PER_ROLLOUT == 0:
            if rollout is not None:
                rollout.__exit__(None, None, None)
            rollout = otel_rl.rollout(sample_id=number)
            rollout.__enter__()
        kinds[number % len(kinds)](number)

    return call


def requests() -> Callable[[int], None]:
    """Make requests of real clients in rollouts: chat of `openai`, `/generate` by `httpx`, each whole and streamed."""
    import httpx
    from chat_workload import Workload

    chat = Workload().shapes
    meta = {"finish_reason": {"type": "stop"}, "prompt_tokens": 10, "completion_tokens": 20}
    answer = {"text": "hello", "meta_info": meta}
    events = f"data: {json.dumps(answer)}\n\ndata: [DONE]\n\n".encode()

    def engine(request: httpx.Request) -> httpx.Response:
        if b'"stream"' in request.content:
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=events)
        return httpx.Response(200, json=answer)

    client = httpx.Client(transport=httpx.MockTransport(engine), base_url="http://127.0.0.1:9")

    def generate(number: int) -> None:
        client.post("/generate", json={"text": f"prompt {number}"})

    def stream(number: int) -> None:
        with client.stream("POST", "/generate", json={"text": f"prompt {number}", "stream": True}) as response:
            # Every eighth stream is left before its end.
            for _ in response.iter_lines():
                if number % 32 == 1:
                    break

    kinds = (lambda _: chat["chat"](1), stream, generate, lambda _: chat["stream"](1))

    def request(number: int) -> None:
        with otel_rl.rollout(sample_id=number):
            kinds[number % len(kinds)](number)

    return request


LOADS: dict[str, Callable[[], Callable[[int], None]]] = {"steps": steps, "calls": calls, "requests": requests}


def look(done: int, cpu_ns: int, number: int, data: Path) -> dict[str, float]:
    """Return what the process holds once everything recorded is delivered and all garbage is collected."""
    from opentelemetry import _logs, metrics, trace

    from otel_rl.ranks import watchdog

    # It takes in the steps that it was told of, up to a second later. The next step starts another one.
    watchdog.end()
    for provider in (trace.get_tracer_provider(), _logs.get_logger_provider(), metrics.get_meter_provider()):
        provider.force_flush()
    gc.collect()
    return {
        "done": done,
        "rss_bytes": int(Path("/proc/self/statm").read_text().split()[1]) * PAGE,
        "objects": len(gc.get_objects()),
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "threads": sum(1 for _ in Path("/proc/self/task").iterdir()),
        "us_per_call": cpu_ns / number / 1000,
        "stored_bytes": sum(file.stat().st_size for file in data.rglob("*") if file.is_file()),
    }


def main() -> None:
    load, total, samples, output = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    data = Path(os.environ["OTEL_RL_DATA_DIR"])
    one = LOADS[load]()
    size = total // samples
    found = []
    started = time.monotonic()
    for sample in range(samples):
        begun = time.thread_time_ns()
        for number in range(sample * size, (sample + 1) * size):
            one(number)
        found.append(look((sample + 1) * size, time.thread_time_ns() - begun, size, data))
        last = found[-1]
        print(
            f"soak {load}: {last['done']} of {total}, {time.monotonic() - started:.0f} s, "
            f"{last['rss_bytes'] / 2**20:.1f} MiB, {last['objects']} objects, {last['descriptors']} descriptors, "
            f"{last['threads']} threads, {last['us_per_call']:.0f} us each",
            file=sys.stderr,
            flush=True,
        )
    output.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
