"""Trajectories as lines of JSON: the rows of ``otel-rl trajectories``, each with what was said in it."""

from __future__ import annotations

import json
import pickle
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from otel_rl.export.table_rows import SAMPLES, TableRows
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader import Log, Process, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.report.core.messages import Message
    from otel_rl.store.reader import Record

SCHEMA = {"said": "trajectory TEXT, span BLOB"}
_CONTENT = {names.GEN_AI_INPUT_MESSAGES, names.GEN_AI_OUTPUT_MESSAGES, names.RL_ROLLOUT_INPUT, names.RL_ROLLOUT_OUTPUT}
_SAID = "SELECT span FROM said WHERE trajectory IN (?, ?) ORDER BY rowid"
_NOBODY = Process("")


@dataclass(slots=True)
class Conversations(TableRows):
    """Rows of trajectories with what was said in them; ``told`` counts those that have messages."""

    told: int = 0

    def add(self, record: Record) -> None:
        """Take in a record."""
        if not self.excerpt.has(record.process):
            return
        if isinstance(record, Log):
            self.tables.add(record)
            if record.event == events.RL_TRAJECTORY_CONTENT.name:
                get = record.attributes.get
                key = json.dumps([get(names.RL_ROLLOUT_ID), get(names.RL_LOOP_ITERATION), record.process.rank])
                span = Span(_NOBODY, "", "", key, "", "", record.time, record.time, record.attributes, [], False, "", 0)
                self.spill.add("said", (key, pickle.dumps(span)))
        elif isinstance(record, Span) and not _CONTENT.isdisjoint(record.attributes):
            self.spill.add("said", (record.trace_id, pickle.dumps(replace(record, process=_NOBODY))))

    def lines(self) -> Iterator[bytes]:
        """Yield the lines; no record comes any more."""
        self.close()
        self.spill.flush()
        self.spill.run("CREATE INDEX by_trajectory ON said (trajectory)")
        for row in self.tables.samples(SAMPLES, *(self.excerpt.steps or (None, None))):
            sample = json.dumps([row.get(names.RL_ROLLOUT_ID), row.iteration, row.rank])
            keys = row.get(names.RL_ROLLOUT_TRACE_ID), sample
            said = _said([pickle.loads(span) for (span,) in self.spill.rows(_SAID, keys)])  # noqa: S301 - made here
            self.told += bool(said)
            yield json.dumps(row.as_json() | said).encode() + b"\n"


def _said(spans: list[Span]) -> dict[str, Any]:
    """Return messages and tools as they were recorded; a line of ours on what was not is a message, too."""
    from otel_rl.report.subjects.trajectories.conversations import of_spans  # noqa: PLC0415 - needs the extra

    said: dict[str, Any] = {"messages": [message.item or _line(message) for message in of_spans(spans)]}
    for span in spans:
        with suppress(KeyError, TypeError, ValueError):
            said["tools"] = json.loads(span.attributes[names.GEN_AI_TOOL_DEFINITIONS])
    return said if said["messages"] else {}


def _line(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": [{"type": "text", "content": message.text}]}
