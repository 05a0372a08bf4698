"""SDKs of products, switched on as a program does; each stands in the place of an instrumentor.

Those with a pipeline of their own count what they record there: ``recorded()``, since they were switched on.
"""

from __future__ import annotations

import importlib
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Nothing listens there.
_NOWHERE = "http://127.0.0.1:9"


class Langfuse:
    """Its wrapper of OpenAI; its exporter joins the provider that is there, and drops what it cannot send."""

    def instrument(self, **_: Any) -> None:
        from langfuse import Langfuse as Client

        Client(public_key="pk-lf-none", secret_key="sk-lf-none", host=_NOWHERE, timeout=1)  # noqa: S106 - of nobody
        importlib.import_module("langfuse.openai")


class Logfire:
    """Its spans have a provider of their own. By default it suppresses whatever else records the call."""

    def instrument(self, **_: Any) -> None:
        import logfire
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._spans = InMemorySpanExporter()
        processors = [SimpleSpanProcessor(self._spans)]
        logfire.configure(send_to_logfire=False, console=False, additional_span_processors=processors)
        self._instrument(logfire)

    def _instrument(self, logfire: Any) -> None:
        logfire.instrument_openai(suppress_other_instrumentation=False)

    def recorded(self) -> int:
        return len(self._spans.get_finished_spans())


class LogfireAnthropic(Logfire):
    """Of Anthropic's client."""

    def _instrument(self, logfire: Any) -> None:
        logfire.instrument_anthropic(suppress_other_instrumentation=False)


class LogfirePydanticAI(Logfire):
    """Of agents."""

    def _instrument(self, logfire: Any) -> None:
        logfire.instrument_pydantic_ai()


class MLflow:
    """Its traces have a provider of their own, and end in a database in the current folder."""

    flavors = ("openai", "langchain")

    def instrument(self, **_: Any) -> None:
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        import mlflow

        mlflow.set_tracking_uri("sqlite:///mlflow.db")
        for flavor in self.flavors:
            importlib.import_module(f"mlflow.{flavor}").autolog()
        self._mlflow = mlflow

    def recorded(self) -> int:
        self._mlflow.flush_trace_async_logging()
        return sum(len(trace.data.spans) for trace in self._mlflow.search_traces(return_type="list"))


class MLflowAnthropic(MLflow):
    """Of Anthropic's client."""

    flavors = ("anthropic",)


class Weave:
    """It records calls, and no spans of OpenTelemetry. It starts with an answer of its server only."""

    def instrument(self, **_: Any) -> None:
        server = _WeaveServer(("127.0.0.1", 0), _WeaveHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        os.environ |= {"WANDB_API_KEY": "0" * 40, "WANDB_BASE_URL": url, "WF_TRACE_SERVER_URL": url}
        import weave

        self._client, self._server = weave.init("none/none"), server

    def recorded(self) -> int:
        self._client.flush()
        return self._server.calls


class _WeaveServer(ThreadingHTTPServer):
    daemon_threads = True
    calls = 0


class _WeaveHandler(BaseHTTPRequestHandler):
    server: _WeaveServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path == "/graphql":
            self._answer({"data": {"viewer": {"username": "none"}, "project": {"name": "none"}}})
        else:
            if self.path.endswith("/calls/complete"):
                self.server.calls += len(json.loads(body)["batch"])
            self._answer({"digest": "A" * 43})

    def do_GET(self) -> None:
        versions = ("min_required_weave_python_version", "trace_server_version", "min_required_trace_server_version")
        self._answer(dict.fromkeys(versions, "0.0.1"))

    def _answer(self, fields: dict[str, Any]) -> None:
        data = json.dumps(fields).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing on stderr."""
