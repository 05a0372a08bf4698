"""Reads what the processes of a run left in its file store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class StoredProcess:
    """What one process recorded."""

    def __init__(self, folder: Path) -> None:
        self.rank = json.loads((folder / "manifest.json").read_text())["rank"]
        self.resource: dict[str, Any] = {}
        self.spans: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        for file in sorted(folder.glob("*.jsonl")):
            for line in file.read_text().splitlines():
                self._add(json.loads(line))

    def _add(self, request: dict[str, Any]) -> None:
        for resource in [*request.get("resourceSpans", []), *request.get("resourceLogs", [])]:
            self.resource.update(_plain(resource["resource"]["attributes"]))
            for scope in resource.get("scopeSpans", []):
                self.spans += [{**span, "attributes": _plain(span.get("attributes", []))} for span in scope["spans"]]
            for scope in resource.get("scopeLogs", []):
                records = [one for one in scope["logRecords"] if one.get("eventName") == "rl.step"]
                self.events += [{**one, "attributes": _plain(one.get("attributes", []))} for one in records]

    def named(self, name: str) -> list[dict[str, Any]]:
        """Spans of this name, in the order of their beginnings."""
        return sorted((one for one in self.spans if one["name"] == name), key=lambda one: int(one["startTimeUnixNano"]))

    @property
    def step_traces(self) -> dict[int, str]:
        """Step -> its trace."""
        return {span["attributes"]["rl.loop.iteration"]: span["traceId"] for span in self.named("rl.rank.step")}


def processes(directory: Path) -> list[StoredProcess]:
    """The processes that have a rank, by their ranks."""
    found = [StoredProcess(manifest.parent) for manifest in directory.glob("*/*/manifest.json")]
    return sorted((one for one in found if one.rank is not None), key=lambda one: one.rank)


def _plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    found = {}
    for attribute in attributes:
        ((kind, value),) = attribute["value"].items()
        found[attribute["key"]] = int(value) if kind == "intValue" else value
    return found
