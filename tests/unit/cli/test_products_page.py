"""The blocks of docs/products.md, each read by a shell and sent by a real exporter to a receiver of ours."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.otlp_servers import http_server

from otel_rl.cli.doctor import otlp_request
from otel_rl.pipeline import exporter_selection

PAGE = Path(__file__).parents[3] / "docs" / "products.md"
BLOCKS = {
    name.split()[0].strip(",:"): text
    for name, text in re.findall(r"^(\w[^\n]*):\n\n```sh\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
}
KEYS = (
    "LANGFUSE_PUBLIC_KEY",
    "LANGFUSE_SECRET_KEY",
    "LANGSMITH_API_KEY",
    "LOGFIRE_TOKEN",
    "WANDB_API_KEY",
    "OPIK_API_KEY",
)
SECRET = "of+the/site="
#: Path and headers of the request for traces, as the products publish them.
REQUESTS: dict[str, tuple[str, dict[str, str]]] = {
    "Langfuse": (
        "/api/public/otel/v1/traces",
        {
            "authorization": "Basic " + base64.b64encode(f"{SECRET}:{SECRET}".encode()).decode(),
            "x-langfuse-ingestion-version": "4",
        },
    ),
    "LangSmith": ("/otel/v1/traces", {"x-api-key": SECRET, "langsmith-project": "grpo"}),
    "Logfire": ("/v1/traces", {"authorization": SECRET}),
    "Weave": ("/otel/v1/traces", {"wandb-api-key": SECRET}),
    "Opik": (
        "/opik/api/v1/private/otel/v1/traces",
        {"authorization": SECRET, "comet-workspace": "team", "projectname": "grpo"},
    ),
    "Phoenix": ("/v1/traces", {}),
    "MLflow": ("/v1/traces", {"x-mlflow-experiment-id": "0"}),
    "Jaeger": ("/v1/traces", {}),
}


def variables(block: str) -> dict[str, str]:
    """What a block sets."""
    shell = subprocess.run(
        ["bash", "-euc", block + "\nenv -0"],
        env={"PATH": "/usr/bin:/bin", **dict.fromkeys(KEYS, SECRET)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    pairs = (pair.partition("=") for pair in shell.stdout.split("\0"))
    return {name: value for name, _, value in pairs if name.startswith("OTEL_")}


@pytest.mark.parametrize("product", REQUESTS)
def test_the_block_of_a_product_makes_the_request_that_it_publishes(
    product: str, no_variables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with http_server() as server:
        for name, value in variables(BLOCKS[product]).items():
            monkeypatch.setenv(name, re.sub(r"https?://[^/]+", f"http://127.0.0.1:{server.port}", value))
        [exporter] = exporter_selection.choose(os.environ).exporters["traces"]
        assert otlp_request.send_all([("traces", exporter)]) == [""]
        [(path, headers, _)] = server.requests

    wanted_path, wanted = REQUESTS[product]
    sent: dict[str, Any] = {name.lower(): value for name, value in headers.items()}
    assert path == wanted_path
    assert {name: sent.get(name) for name in wanted} == wanted
    assert sent["content-type"] == "application/x-protobuf"


def test_traces_go_to_two_destinations_and_metrics_to_the_files(no_variables: None) -> None:
    block = BLOCKS["Phoenix"] + PAGE.read_text().split("**Two destinations at once**")[1].split("```")[1].removeprefix(
        "sh\n"
    )
    chosen = exporter_selection.choose(variables(block)).exporters
    assert chosen == {
        "traces": ("otel_rl_file", "otlp_proto_http"),
        "metrics": ("otel_rl_file",),
        "logs": ("otel_rl_file",),
    }


def test_each_product_of_the_page_is_tested() -> None:
    assert {*BLOCKS} - {"Zipkin"} == {*REQUESTS}
