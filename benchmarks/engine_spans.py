"""Many rollouts at once that ask a real vLLM: the share of the engine's spans that join the rollout that asked.

    make test-engines            (makes the environment, $HOME/.cache/otel-rl/library-versions/vllm-0.32.0)
    ENVIRONMENT/bin/python benchmarks/engine_spans.py [--rollouts 512] [--output FILE]

The engine is vLLM's server, which exports its own spans; `LLM.generate`, with a quarter of the rollouts; and
`AsyncLLM.generate` with vLLM's tracer on, with a half of them.
Each request has an id that names its rollout, and its span has it too. A span counts where it is the only one of its
request, in the trace of that rollout, below the call that the rollout made. The share is of all requests, so a span
that is missing counts against it. The programs are in `engine_span_programs.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(HERE),
    *(str(HERE.parent / folder) for folder in ("tests", "tests/engines", "examples", "compose")),
]

from engine_runs import run  # noqa: E402 - found by the line above
from engine_span_programs import TURNS, request_id, seed  # noqa: E402 - as above
from figures import finish  # noqa: E402 - as above
from support.otlp_servers import http_server  # noqa: E402 - as above
from vllm_server import Served  # noqa: E402 - as above

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_runs import Store

ROLLOUTS = 512
LEAST_SHARE = 0.99
PROGRAMS = str(HERE / "engine_span_programs.py")
#: vLLM's name of a request's span, and its attribute for the request's id; what its server writes before the id.
ENGINE_SPAN, REQUEST_ID, CHAT_PREFIX = "llm_request", "gen_ai.request.id", "chatcmpl-"


class Place(NamedTuple):
    """Where a span lies: all in hexadecimal."""

    trace: str
    parent: str
    span: str


def place(span: dict[str, Any]) -> Place:
    """Return the place of a span of the file store."""
    return Place(span["traceId"], span.get("parentSpanId", ""), span["spanId"])


def rollouts_of(store: Store) -> dict[str, Place]:
    """By the id that the program gave."""
    return {span["attributes"]["rl.rollout.id"]: place(span) for span in store.named("rl.rollout")}


def by_request(spans: Iterable[tuple[str, Place]]) -> dict[str, list[Place]]:
    """Places of the spans of each request."""
    found: dict[str, list[Place]] = defaultdict(list)
    for request, where in spans:
        found[request].append(where)
    return found


def children_of(parents: dict[str, Place], spans: dict[str, list[Place]], rollout_of: dict[str, str]) -> list[str]:
    """Return the requests whose only span is a child of the one of their rollout."""
    return [
        request
        for request, rollout in rollout_of.items()
        if rollout in parents
        and [(one.trace, one.parent) for one in spans.get(request, ())]
        == [(parents[rollout].trace, parents[rollout].span)]
    ]


def requests_of(number: int) -> dict[str, str]:
    """Each request and its rollout."""
    return {request_id(rollout, turn): str(rollout) for rollout in range(number) for turn in range(TURNS)}


def of_server(folder: Path, model: Path, number: int) -> dict[str, int]:
    """Spans of a plain server: each below a call of its own that the right rollout has made."""
    with http_server() as receiver:
        server = Served(folder / "server", model, receiver, watched=False, at_once=64)
        try:
            server.wait_until_it_answers()
            began = time.perf_counter()
            store = run(PROGRAMS, folder / "client", "served", f"{server.url}/v1", str(number), watched=True).store
            seconds = time.perf_counter() - began
            exported = server.engine_spans(number * TURNS)
        finally:
            server.stop()
    rollouts, wanted = rollouts_of(store), requests_of(number)
    calls = {span["spanId"]: place(span) for span in store.named("chat tiny")}
    told, used = [], set()
    for span in exported:
        values = {one.key: one.value.string_value for one in span.attributes}
        request = values[REQUEST_ID].removeprefix(CHAT_PREFIX)
        where = Place(span.trace_id.hex(), span.parent_span_id.hex(), span.span_id.hex())
        call = calls.get(where.parent)
        # The parent is a call that no other request has, in the same trace; its own parent has to be the rollout.
        is_below = call is not None and call.trace == where.trace and where.parent not in used
        used.add(where.parent)
        told.append((request, where._replace(parent=call.parent if call and is_below else "")))
    right = children_of(rollouts, by_request(told), wanted)
    return {"requests": len(wanted), "spans": len(exported), "right": len(right), "seconds": round(seconds)}


def of_batches(folder: Path, model: Path, number: int) -> dict[str, int]:
    """Spans of `LLM.generate`: a child of the rollout that called."""
    variables = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    store = run(PROGRAMS, folder / "batches", "batches", str(model), str(number), watched=True, **variables).store
    spans = [
        (str(span["attributes"].get("gen_ai.request.seed")), place(span))
        for span in store.named("text_completion tiny")
    ]
    wanted = {str(seed(rollout, turn)): str(rollout) for rollout in range(number) for turn in range(TURNS)}
    right = children_of(rollouts_of(store), by_request(spans), wanted)
    return {"requests": len(wanted), "spans": len(spans), "right": len(right)}


def of_asynchronous(folder: Path, model: Path, number: int) -> tuple[dict[str, int], dict[str, int]]:
    """Our spans of `AsyncLLM.generate`, children of the rollout, and vLLM's own, children of ours."""
    with http_server() as receiver:
        endpoint = f"http://127.0.0.1:{receiver.port}/v1/traces"
        variables = {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}
        store = run(
            PROGRAMS, folder / "async", "asynchronous", str(model), endpoint, str(number), watched=True, **variables
        ).store
    wanted = requests_of(number)
    ours = [
        (str(span["attributes"].get("gen_ai.response.id")), place(span)) for span in store.named("text_completion tiny")
    ]
    theirs = [(str(span["attributes"].get(REQUEST_ID)), place(span)) for span in store.named(ENGINE_SPAN)]
    right = children_of(rollouts_of(store), by_request(ours), wanted)
    calls = {request: where for request, where in ours if request in set(right)}
    below = children_of(calls, by_request(theirs), {request: request for request in wanted})
    return (
        {"requests": len(wanted), "spans": len(ours), "right": len(right)},
        {"requests": len(wanted), "spans": len(theirs), "right": len(below)},
    )


def main() -> int:
    """Measure, print and write the result; returns the exit status."""
    import tiny_model

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--rollouts", type=int, default=ROLLOUTS)
    options, _ = parser.parse_known_args()
    number = options.rollouts
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model = tiny_model.build(folder / "tiny", heads=2)
        found = {"server": of_server(folder, model, number), "LLM.generate": of_batches(folder, model, number // 4)}
        found["AsyncLLM.generate"], found["AsyncLLM.generate, vLLM's own"] = of_asynchronous(folder, model, number // 2)
    figures: dict[str, Any] = {}
    for engine, counts in found.items():
        share = counts["right"] / counts["requests"]
        figures[f"{engine}: share of spans in their rollout"] = {"value": round(share, 5), "at_least": LEAST_SHARE}
        figures[f"{engine}: requests"] = {"value": counts["requests"]}
    return finish("engine_spans", figures, found, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
