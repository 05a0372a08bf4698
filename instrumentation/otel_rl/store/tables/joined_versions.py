"""Versions of the weights that answered one trajectory in several processes, as its row has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Engines of one trajectory that are told apart, and what is between their names: see ``training.engine_versions``.
MAXIMUM_IN_TRAJECTORY, SEPARATOR = 16, ", "
#: Columns that this is read from.
COLUMNS = (
    names.RL_ROLLOUT_POLICY_VERSION_MIN,
    names.RL_ROLLOUT_POLICY_VERSION_MAX,
    names.RL_ROLLOUT_VERSIONS_BEHIND,
    names.RL_ROLLOUT_ENGINES,
    names.RL_ROLLOUT_ENGINE_VERSIONS,
    names.RL_ROLLOUT_ENGINE_VERSIONS_BEHIND,
)


@dataclass(slots=True)
class JoinedVersions:
    """The lowest and highest version, the most that one was behind, and by engine its version and how far behind."""

    lowest: int | None = None
    highest: int | None = None
    behind: int | None = None
    engines: dict[str, tuple[int, int | None]] = field(default_factory=dict)

    def add(self, value_of: Callable[[str], Any]) -> None:
        """Take in what one process says; ``value_of`` gives the value of a column."""
        lowest, highest, behind, engines, versions, lags = map(value_of, COLUMNS)
        self.lowest = min((one for one in (self.lowest, lowest) if type(one) is int), default=None)
        self.highest = _most(self.highest, highest)
        self.behind = _most(self.behind, behind)
        named = engines.split(SEPARATOR) if isinstance(engines, str) else []
        of_engines = versions if isinstance(versions, list) else []
        lags = lags if isinstance(lags, list) else []
        lags = lags + [None] * (len(of_engines) - len(lags))
        for name, version, lag in zip(named, of_engines, lags, strict=False):
            if type(version) is not int or (name not in self.engines and len(self.engines) >= MAXIMUM_IN_TRAJECTORY):
                continue
            had, had_lag = self.engines.get(name, (version, None))
            self.engines[name] = max(had, version), _most(had_lag, lag)

    def columns(self) -> dict[str, Any]:
        """Return what is known, as columns of the row."""
        behind = self.behind
        if self.lowest is not None and self.highest is not None and self.highest > self.lowest:
            behind = _most(behind, self.highest - self.lowest)
        lags = [lag for _, lag in self.engines.values()]
        values = (
            self.lowest,
            self.highest,
            behind,
            SEPARATOR.join(self.engines) or None,
            [version for version, _ in self.engines.values()] or None,
            lags if any(lag is not None for lag in lags) else None,
        )
        return {name: value for name, value in zip(COLUMNS, values, strict=True) if value is not None}


def join(known: dict[str, Any], said: Mapping[str, Any]) -> None:
    """Add to the columns of a row what another process says of the versions."""
    if any(name in said for name in COLUMNS):
        versions = JoinedVersions()
        versions.add(known.get)
        versions.add(said.get)
        known |= versions.columns()


def _most(one: Any, other: Any) -> int | None:
    return max((value for value in (one, other) if type(value) is int), default=None)
