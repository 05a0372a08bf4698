"""The generated part for a sink that is the only one: there is none beside it that it could hold back by waiting.

A sink's file cannot know this: it says `drop`, which is right beside other sinks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.collector.parts.files import ConfigurationPart
from otel_rl.collector.parts.merge import merge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NAME = "the only sink"
_HUBS = {"forward/traces_out", "forward/metrics_out", "forward/logs_out"}
_SHOWS_ONLY = "debug"
_WAITING, _FILES = ("durable_otlp_grpc/sink", "durable_otlp_http/logfire"), "side_sink"
"""Exporters of the sinks that take every signal and say `drop`, and the processor of the files."""

_WAITS = """\
# The only sink: what it has no room for waits, and then becomes dead letters. No other needs the memory.
exporters:
  {}:
    when_full: wait
    sending_queue:
      queue_size: 268435456
"""
_PUSHES_BACK = f"""\
# The only sink: what it cannot write is refused, so that the senders keep it.
processors:
  {_FILES}:
    when_full: push_back
"""


def generated(parts: Sequence[ConfigurationPart]) -> list[ConfigurationPart]:
    """Return the part for the one sink of these parts; nothing where there are several or where it drops nothing.

    Raises:
        Refused: one of the parts is not YAML.
    """
    merged = merge(parts)
    pipelines = (merged.get("service") or {}).get("pipelines") or {}
    ways = [pipeline for pipeline in pipelines.values() if _HUBS & set(_names(pipeline, "receivers"))]
    if any(len(_exporters(ways, hub)) > 1 for hub in _HUBS):
        return []
    for exporter in _WAITING:
        if any(exporter in _names(pipeline, "exporters") for pipeline in ways):
            return [ConfigurationPart(NAME, _WAITS.format(exporter))]
    if any(_FILES in _names(pipeline, "processors") for pipeline in ways):
        return [ConfigurationPart(NAME, _PUSHES_BACK)]
    return []


def _exporters(ways: Iterable[Mapping[str, Any]], hub: str) -> set[str]:
    """Return the exporters that get the signal of a hub, without those that only show it."""
    fed = (name for pipeline in ways if hub in _names(pipeline, "receivers") for name in _names(pipeline, "exporters"))
    return {name for name in fed if name.partition("/")[0] != _SHOWS_ONLY}


def _names(pipeline: Mapping[str, Any] | None, kind: str) -> list[str]:
    return list((pipeline or {}).get(kind) or [])
