"""The settings of the program, by the source that knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.report.core.collected import asked_once
from otel_rl.semconv import events
from otel_rl.store.reader.run_records import configuration_of

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected


@asked_once
def by_source(collected: Collected) -> dict[str, dict[str, Any]]:
    """Return the settings of the latest attempt by source; of one that was given again the later value."""
    found: dict[tuple[tuple[int, ...], str], dict[str, Any]] = {}
    for log in collected.tables.events(events.RL_RUN_CONFIGURATION.name):
        given = configuration_of(log)
        if given is not None and log.process.attempt not in collected.superseded:
            found.setdefault((log.process.attempt, given[0]), {}).update(given[1])
    return {source: found[attempt, source] for attempt, source in sorted(found)}
