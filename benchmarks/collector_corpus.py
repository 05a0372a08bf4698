"""The corpus of the collector's benchmarks as OTLP requests, encoded once and made new in place before each sending.

What has to be new each time (trace ids, rollout ids, the text that does not repeat) stands in the encoded bytes as
markers of fixed length; `Request.renew` writes random bytes over them, so that the sender costs next to nothing.
"""

from __future__ import annotations

import json
import random
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

FOLDER = Path(__file__).resolve().parent / "corpora" / "collector"
SECOND = 1_000_000_000
SPANS_PER_REQUEST = 256
#: Keys that no convention names, so that nothing but the text itself tells whether it may leave.
FREE_TEXT_KEYS = (
    *("task.title", "task.note", "environment.observation", "grader.remark"),
    *("planner.thought", "retry.reason", "dataset.row", "checkpoint.note"),
)
_FRESH = re.compile(rb"slot([0-9]{8})")
_TRACE_ID = re.compile(rb"trace-id([0-9]{8})")
_HEXADECIMAL = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


@dataclass(frozen=True)
class Variant:
    """How much free text a span carries, and of which kind; shares are of the texts."""

    texts_per_span: int = 8
    repeated: float = 0.75
    keywords: float = 0.2
    dense: bool = False
    secrets: float = 0.001


VARIANTS = {
    "free_text": Variant(),
    "no_free_text": Variant(texts_per_span=0),
    "cold_cache": Variant(repeated=0.0),
    "worst_case": Variant(repeated=0.0, keywords=1.0, dense=True, secrets=0.2),
}


class Request:
    """One encoded export request."""

    def __init__(self, message: ExportTraceServiceRequest, spans: int) -> None:
        self.body = bytearray(message.SerializeToString())
        self.spans = spans
        self._view = np.frombuffer(self.body, dtype=np.uint8)
        self._slots, self._slot_groups = self._find(_FRESH, 12)
        self._traces, self._trace_groups = self._find(_TRACE_ID, 16)

    def _find(self, marker: re.Pattern[bytes], width: int) -> tuple[Any, Any]:
        found = [(match.start(), match.group(1)) for match in marker.finditer(self.body)]
        groups = {name: index for index, name in enumerate(dict.fromkeys(name for _, name in found))}
        starts = np.array([start for start, _ in found], dtype=np.int64)
        return starts[:, None] + np.arange(width), np.array([groups[name] for _, name in found], dtype=np.int64)

    def renew(self, draw: np.random.Generator) -> None:
        """Write new trace ids and new text over the markers; equal markers stay equal."""
        if self._slots.size:
            values = draw.integers(0, 16, size=(self._slot_groups.max() + 1, 12))
            self._view[self._slots] = _HEXADECIMAL[values[self._slot_groups]]
        values = draw.integers(1, 256, size=(self._trace_groups.max() + 1, 16), dtype=np.uint8)
        self._view[self._traces] = values[self._trace_groups]


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]


def _any_value(plain: Any) -> AnyValue:
    if isinstance(plain, list):
        return AnyValue(array_value=ArrayValue(values=[_any_value(item) for item in plain]))
    kinds = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}
    return AnyValue(**{kinds[type(plain)]: plain})


def _attributes(plain: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any_value(item)) for key, item in plain.items()]


class Corpus:
    """The requests of one variant and what is in them; the same for the same files."""

    def __init__(self, variant: str) -> None:
        self.variant = VARIANTS[variant]
        self._pick = random.Random(variant)  # noqa: S311 - repeatable on purpose
        self._texts: dict[str, list[str]] = {}
        for line in _lines("texts.jsonl"):
            self._texts.setdefault(line["kind"], []).append(line["text"])
        self._markers = 0
        self._counts = dict.fromkeys(("spans", "texts", "repeated", "keywords", "secrets", "scanned", "bytes"), 0)
        self.requests = self._encode()

    def _marker(self) -> str:
        self._markers += 1
        return f"slot{self._markers:08d}"

    def _text(self) -> str:
        variant, pick = self.variant, self._pick
        chance = pick.random()
        if chance < variant.secrets:
            kind = "secret"
        elif chance < variant.secrets + variant.keywords:
            kind = "dense" if variant.dense else "keyword"
        else:
            kind = "plain"
        index = pick.randrange(len(self._texts[kind]))
        repeats = kind != "secret" and pick.random() < variant.repeated
        # A repeated text has the same number wherever it appears; any other one gets a new number at each sending.
        fresh = f"{index:012x}" if repeats else self._marker()
        secret = "".join(pick.choices("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=32))
        text = self._texts[kind][index].replace("{fresh}", fresh).replace("{secret}", secret)
        self._counts["texts"] += 1
        self._counts["repeated"] += repeats
        self._counts["keywords"] += kind in ("keyword", "dense")
        self._counts["secrets"] += kind == "secret"
        self._counts["scanned"] += len(text)
        return text

    def _span(self, shape: dict[str, Any], identities: list[bytes], trace_id: bytes, marker: str, start: int) -> Span:
        # The marker in an id is that of the whole rollout; the one of an answer or of a tool call is its own.
        given = {
            key: item.replace("{fresh}", marker if key == "rl.rollout.id" else self._marker())
            if isinstance(item, str) and "{fresh}" in item
            else item
            for key, item in shape.get("attributes", {}).items()
        }
        given |= {key: self._text() for key in FREE_TEXT_KEYS[: self.variant.texts_per_span]}
        begin = start + int(shape["start"] * SECOND)
        span = Span(
            trace_id=trace_id,
            span_id=identities[-1],
            parent_span_id=identities[shape["parent"]] if shape["parent"] >= 0 else b"",
            name=shape["name"],
            kind=Span.SPAN_KIND_CLIENT if shape.get("client") else Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=begin,
            end_time_unix_nano=begin + int(shape["seconds"] * SECOND),
            attributes=_attributes(given),
        )
        if shape.get("failed"):
            span.status.code = 2
            span.attributes.extend(_attributes({"error.type": "TimeoutError"}))
        return span

    def _trace(self, shape: dict[str, Any], number: int, start: int) -> ResourceSpans:
        trace_id = b"trace-id%08d" % number
        marker = self._marker()
        identities: list[bytes] = []
        spans = []
        for each in shape["spans"]:
            identities.append(self._pick.getrandbits(63).to_bytes(8, "big"))
            spans.append(self._span(each, identities, trace_id, marker, start))
        resource = ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])
        resource.scope_spans[0].scope.name = "otel_rl"
        rank = {"rl.rank": shape["rank"], "rl.role": "trainer" if shape["kind"] == "step" else "rollout"}
        run = {
            "service.name": "train",
            "host.name": f"node-{shape['rank']}",
            "rl.run.id": "benchmark",
            "rl.system.name": "trl",
        }
        resource.resource.attributes.extend(_attributes({**run, **rank}))
        return resource

    def _encode(self) -> list[Request]:
        start = time.time_ns() - 60 * SECOND
        requests, message, held = [], ExportTraceServiceRequest(), 0
        shapes = _lines("traces.jsonl")
        for number, shape in enumerate(shapes):
            message.resource_spans.append(self._trace(shape, number, start))
            held += len(shape["spans"])
            if held >= SPANS_PER_REQUEST or number == len(shapes) - 1:
                requests.append(Request(message, held))
                self._counts["spans"] += held
                self._counts["bytes"] += len(requests[-1].body)
                message, held = ExportTraceServiceRequest(), 0
        return requests

    def describe(self) -> dict[str, float]:
        """Spans, and what a span and its texts are made of."""
        counts, texts = self._counts, max(self._counts["texts"], 1)
        return {
            "spans": counts["spans"],
            "encoded_bytes_per_span": round(counts["bytes"] / counts["spans"], 1),
            "free_texts_per_span": counts["texts"] / counts["spans"],
            "scanned_bytes_per_span": round(counts["scanned"] / counts["spans"], 1),
            "repetition_share": round(counts["repeated"] / texts, 4),
            "keyword_share": round(counts["keywords"] / texts, 4),
            "secret_share": round(counts["secrets"] / texts, 4),
        }
