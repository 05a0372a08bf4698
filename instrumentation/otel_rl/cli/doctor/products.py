"""Products for traces of language models: known by their address, and what each wants of a request.

Sources: the documentation of their OTLP endpoints; docs/products.md names what was run.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

_ENDPOINT, _HEADERS = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"


class Product(NamedTuple):
    """A product: the path of its traces, the headers of its users, and whether it takes what it does not keep."""

    name: str
    path: str
    headers: str
    signals: tuple[str, ...] = ("traces",)
    throws_away: bool = False


#: Host, port or path -> product. A name in the middle of an address may be anybody's.
_PRODUCTS = (
    (
        r"//([\w-]+\.)*(langfuse\.com|langfuse)(:\d+)?(/|$)|/api/public/otel",
        Product(
            "Langfuse",
            "/api/public/otel/v1/traces",
            "Authorization=Basic%20KEYS, where KEYS is base64 of PUBLIC_KEY:SECRET_KEY",
            throws_away=True,
        ),
    ),
    (
        r"//([\w-]+\.)*(smith\.langchain\.com|langsmith)(:\d+)?(/|$)",
        Product("LangSmith", "/otel/v1/traces", "x-api-key=KEY,Langsmith-Project=NAME"),
    ),
    (
        r"//logfire-\w+\.pydantic\.dev(/|$)",
        Product("Logfire", "/v1/traces", "Authorization=TOKEN", ("traces", "metrics", "logs")),
    ),
    (r"//([\w-]+\.)*wandb\.ai(/|$)|/agents/otel", Product("Weave", "/otel/v1/traces", "wandb-api-key=KEY")),
    (
        r"//([\w-]+\.)*comet\.com/|/private/otel",
        Product("Opik", "/api/v1/private/otel/v1/traces", "Authorization=KEY,Comet-Workspace=NAME,projectName=NAME"),
    ),
    (r"//phoenix(:|/|$)|:6006(/|$)", Product("Phoenix", "/v1/traces", "authorization=Bearer%20KEY")),
)
_ZIPKIN = re.compile(r"//zipkin(:|/|$)|:9411(/|$)|/api/v2/spans")
_NO_OTLP = (
    "is Zipkin, which takes no OTLP; send to a collector with --sink zipkin, or pip install"
    " opentelemetry-exporter-zipkin-json and set OTEL_TRACES_EXPORTER=zipkin_json"
)


def explained(destination: str, signal: str, sentence: str) -> str:
    """Return what an answer means, in the words of the product at ``destination`` where one is known by it.

    Args:
        destination: address that the exporter sends to.
        signal: traces, metrics or logs.
        sentence: what :mod:`.otlp_answers` makes of the answer; empty where it is good.
    """
    if sentence and _ZIPKIN.search(destination):
        return _NO_OTLP
    product = next((product for known_by, product in _PRODUCTS if re.search(known_by, destination)), None)
    if product is None:
        return sentence
    if signal not in product.signals and (sentence or product.throws_away):
        return (
            f"is {product.name}, which takes traces only; in place of OTEL_EXPORTER_OTLP_ENDPOINT set {_ENDPOINT},"
            f" which ends in {product.path}"
        )
    status = re.search(r"\((\d{3})", sentence)
    if status is None:
        return sentence
    meaning = {
        "401": f"{_what_it_wants()}; set {_HEADERS}={product.headers}",
        "403": f"refuses these credentials; set {_HEADERS}={product.headers}",
        "415": "takes protobuf only; set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf",
    }.get(status[1])
    if meaning is None and status[1] in ("200", "404", "405"):
        meaning = f"takes traces at {product.path}; set {_ENDPOINT} to its address with this path"
    return sentence if meaning is None else f"is {product.name} and {meaning.replace(';', f' ({status[1]});', 1)}"


def _what_it_wants() -> str:
    has_some = any(os.environ.get(name) for name in (_HEADERS, "OTEL_EXPORTER_OTLP_HEADERS"))
    return "refuses the credentials that are set" if has_some else "wants credentials"
