"""Makes every kind of model call beside another instrumentor and prints what was recorded, as one JSON object.

    python program.py MODULE:CLASS [MODULE:CLASS ...] [--ours-after | --ours-before]

Runs in an environment of its own, without pytest, with the folder `tests` on PYTHONPATH. The server is real, the
telemetry pipeline is in memory.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.fake_openai import FakeOpenAI

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OURS = ("otel_rl.instrumentors.openai:OpenAIInstrumentor", "otel_rl.instrumentors.langchain:LangChainInstrumentor")
MESSAGES = [{"role": "user", "content": "hi"}]
CHAT = {"model": "tiny", "messages": MESSAGES}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
#: Where the instrumentors say how many input tokens a call had.
INPUT_TOKENS = ("gen_ai.usage.input_tokens", "llm.token_count.prompt")
_OPERATIONS = {"invoke_agent": "agent", "execute_tool": "tool", "AGENT": "agent", "TOOL": "tool"}
OPENAI_CALLS: dict[str, Callable[[Any], Any]] = {
    "chat": lambda c: c.chat.completions.create(**CHAT),
    "chat, streamed": lambda c: list(c.chat.completions.create(**CHAT, **STREAM)),
    "chat, raw": lambda c: c.chat.completions.with_raw_response.create(**CHAT).parse(),
    "text completion": lambda c: c.completions.create(model="tiny", prompt="hi"),
    "embeddings": lambda c: c.embeddings.create(model="tiny", input="hi"),
    "responses": lambda c: c.responses.create(model="tiny", input="hi"),
    "responses, streamed": lambda c: list(c.responses.create(model="tiny", input="hi", stream=True)),
    "responses, raw": lambda c: c.responses.with_raw_response.create(model="tiny", input="hi").parse(),
}


class Recorded:
    """What was recorded since it was last asked."""

    def __init__(self) -> None:
        #: Products with a pipeline of their own.
        self.products: list[Any] = []
        self._recorded_apart = 0
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader({Histogram: AggregationTemporality.DELTA})
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        trace.set_tracer_provider(provider)
        metrics.set_meter_provider(MeterProvider([self._metrics]))

    def take(self) -> dict[str, Any]:
        """Scopes of agents' and tools' spans, those of models with their input tokens; metrics' counts by scope."""
        spans: list[Any] = []
        others: dict[str, list[str]] = {"agent": [], "tool": []}
        for span in self._spans.get_finished_spans():
            kind = _kind(span.attributes or {})
            tokens = _input_tokens(span.attributes or {})
            if kind in others:
                others[kind].append(span.instrumentation_scope.name)
            elif tokens is not None:
                spans.append([span.instrumentation_scope.name, tokens])
        self._spans.clear()
        durations: Counter[str] = Counter()
        tokens_by_scope: Counter[str] = Counter()
        data = self._metrics.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        if metric.name == "gen_ai.client.operation.duration":
                            durations[scope.scope.name] += point.count
                        elif point.attributes.get("gen_ai.token.type") == "input":
                            tokens_by_scope[scope.scope.name] += point.sum
        apart = sum(product.recorded() for product in self.products) - self._recorded_apart
        self._recorded_apart += apart
        found = {"spans": spans, "durations": dict(durations), "tokens": dict(tokens_by_scope)}
        return {**found, **others, "apart": apart}


def _input_tokens(values: Mapping[str, Any]) -> int | None:
    counted = next((values[key] for key in INPUT_TOKENS if key in values), None)
    if counted is None and "langfuse.observation.usage_details" in values:
        details = json.loads(values["langfuse.observation.usage_details"])
        return next((details[key] for key in ("input", "prompt_tokens", "input_tokens") if key in details), None)
    return counted


def _kind(values: Mapping[str, Any]) -> str | None:
    """Whether it is of an agent or a tool, in the words of the conventions or of OpenInference."""
    operation = _OPERATIONS.get(values.get("gen_ai.operation.name"))
    return operation or _OPERATIONS.get(values.get("openinference.span.kind"))


def instrument(names: list[str], recorded: Recorded) -> None:
    for name in names:
        module, _, kind = name.partition(":")
        instrumentor = getattr(importlib.import_module(module), kind)()
        instrumentor.instrument(skip_dep_check=True)
        if hasattr(instrumentor, "recorded"):
            recorded.products.append(instrumentor)


def _agent(base_url: str) -> Callable[[], Any]:
    from langchain_openai import ChatOpenAI
    from langgraph.graph import START, MessagesState, StateGraph

    model = ChatOpenAI(model="tiny", base_url=base_url, api_key="none", max_retries=0)
    graph = StateGraph(MessagesState)
    graph.add_node("think", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_edge(START, "think")
    compiled = graph.compile()
    return lambda: compiled.invoke({"messages": [("user", "hi")]})


def main(arguments: list[str]) -> int:
    names = [argument for argument in arguments if not argument.startswith("--")]
    recorded = Recorded()
    if "--ours-before" in arguments:
        instrument(list(OURS), recorded)
    instrument(names, recorded)
    if "--ours-after" in arguments:
        instrument(list(OURS), recorded)
    import openai

    found = {}
    with FakeOpenAI() as server:
        client = openai.OpenAI(api_key="none", base_url=server.base_url, max_retries=0)
        recorded.take()
        for name, call in OPENAI_CALLS.items():
            call(client)
            found[name] = recorded.take()
        agent = _agent(server.base_url)
        recorded.take()
        agent()
        found["LangGraph with ChatOpenAI"] = recorded.take()
    print(json.dumps(found))
    sys.stdout.flush()
    # Some libraries leave threads that ask for their makers' servers.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
