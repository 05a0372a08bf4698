"""Targets of a panel, in the shape that Grafana's data sources expect (grafanalib has none for Loki and Tempo).

``empty_when`` of each says when a healthy run has no data for it; None: it always has. It is not part of the board.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

#: The boards choose their data sources by variable, so that any uid works.
PROMETHEUS = {"type": "prometheus", "uid": "${prom}"}
TEMPO = {"type": "tempo", "uid": "${tempo}"}
LOKI = {"type": "loki", "uid": "${loki}"}


@dataclass(frozen=True, slots=True)
class PromQuery:
    """A PromQL query; ``exemplar`` also asks for the traces behind the series, ``instant`` for the last value only."""

    datasource: ClassVar[dict[str, str]] = PROMETHEUS

    expr: str
    legend: str = "__auto"
    instant: bool = False
    exemplar: bool = False
    format: str = "time_series"
    empty_when: str | None = None

    @property
    def text(self) -> str:
        """The query itself."""
        return self.expr

    def to_json_data(self) -> dict[str, Any]:
        """Return the target without its ``refId``, which the panel gives."""
        return {
            "datasource": PROMETHEUS,
            "editorMode": "code",
            "exemplar": self.exemplar,
            "expr": self.expr,
            "format": self.format,
            "instant": self.instant,
            "legendFormat": self.legend,
            "range": not self.instant,
        }


@dataclass(frozen=True, slots=True)
class LokiQuery:
    """A LogQL query: records, or a metric over them."""

    datasource: ClassVar[dict[str, str]] = LOKI

    expr: str
    legend: str = ""
    max_lines: int = 500
    empty_when: str | None = None

    @property
    def text(self) -> str:
        """The query itself."""
        return self.expr

    def to_json_data(self) -> dict[str, Any]:
        """Return the target without its ``refId``, which the panel gives."""
        target = {
            "datasource": LOKI,
            "direction": "backward",
            "editorMode": "code",
            "expr": self.expr,
            "maxLines": self.max_lines,
            "queryType": "range",
        }
        return {**target, "legendFormat": self.legend} if self.legend else target


@dataclass(frozen=True, slots=True)
class TempoQuery:
    """A TraceQL search; ``table`` is one row per ``traces`` or per matching ``spans``."""

    datasource: ClassVar[dict[str, str]] = TEMPO

    query: str
    table: str = "spans"
    limit: int = 200
    spans_per_trace: int = 100
    empty_when: str | None = None

    @property
    def text(self) -> str:
        """The query itself."""
        return self.query

    def to_json_data(self) -> dict[str, Any]:
        """Return the target without its ``refId``, which the panel gives."""
        return {
            "datasource": TEMPO,
            "filters": [],
            "limit": self.limit,
            "query": self.query,
            "queryType": "traceql",
            "spss": self.spans_per_trace,
            "tableType": self.table,
        }


Query = PromQuery | LokiQuery | TempoQuery
