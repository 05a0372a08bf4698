"""Versions of the weights that made the tokens of an answer: an engine may get new ones while it generates.

vLLM and SGLang list them as ``[{"version": "12", "start": 0, "end": 310}, ...]``, ``end`` excluded.
"""

from __future__ import annotations

from typing import Any

from otel_rl.inference.fields import count_of, fields_of, items_of
from otel_rl.semconv import attributes
from otel_rl.telemetry.attribute_values import text

#: Most versions of one answer.
_MOST = 16


def add(tokens: dict[str, int], listed: Any) -> None:
    """Add the tokens that each listed range of output tokens gives to its version."""
    for one in items_of(listed):
        fields = fields_of(one)
        given, start, end = fields.get("version"), count_of(fields.get("start")), count_of(fields.get("end"))
        if given is None or start is None or end is None:
            continue
        # Of a server: any type, also one that no dictionary takes.
        version = text(str(given))
        if version in tokens or len(tokens) < _MOST:
            tokens[version] = tokens.get(version, 0) + max(end - start, 0)


def attributes_of(tokens: dict[str, int]) -> dict[str, Any]:
    """Return the attributes of a call whose answer several versions made; one is ``rl.inference.weight_version``."""
    if len(tokens) < 2:  # noqa: PLR2004
        return {}
    return {
        attributes.RL_INFERENCE_WEIGHT_VERSIONS: tuple(tokens),
        attributes.RL_INFERENCE_WEIGHT_VERSION_TOKENS: tuple(tokens.values()),
    }
