"""The settings of the program, by the source that knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.store.reader.run_records import configuration_of

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Log

#: Sources, and settings of each, that are kept; attempts likewise.
_SOURCES, _SETTINGS = 64, 1000


class Configuration:
    """Settings as the events have them; of one that was given again the later value."""

    def __init__(self) -> None:
        self._of: dict[tuple[tuple[int, ...], str], dict[str, Any]] = {}

    def add_log(self, log: Log) -> None:
        """Take in settings; other records are ignored."""
        found = configuration_of(log)
        if found is None:
            return
        source, given = found
        place = log.process.attempt, source
        if place in self._of or len(self._of) < _SOURCES:
            known = self._of.setdefault(place, {})
            known.update((name, value) for name, value in given.items() if name in known or len(known) < _SETTINGS)

    def by_source(self, collected: Collected) -> dict[str, dict[str, Any]]:
        """Return the settings of the latest attempt by source."""
        latest = [(place, known) for place, known in self._of.items() if place[0] not in collected.superseded]
        return {source: known for (_, source), known in sorted(latest, key=lambda item: item[0])}
