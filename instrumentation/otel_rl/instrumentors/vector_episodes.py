"""Episodes of environments that are stepped together, whose results are arrays of NumPy with a value for each.

Results on a device are not read, that would wait for it: a vector that has them is not followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops
from otel_rl.telemetry.attribute_values import truth
from otel_rl.training import environments

if TYPE_CHECKING:
    from collections.abc import Mapping

    Values = np.ndarray[Any, np.dtype[Any]]

#: Reason for which a vector is not followed any more, among the drops.
UNREADABLE = "unreadable_results"
#: Kinds of dtype that are truth values or real numbers.
_NUMERIC = "biuf"


class VectorEpisodes:
    """The open episode of each environment of a vector.

    ``skips_reset`` says that the step after the end of an episode only resets: it is none of the next episode.
    """

    __slots__ = ("__weakref__", "_gains", "_is_followed", "_lengths", "_resets", "name", "skips_reset")

    def __init__(self, name: str, number: int, *, skips_reset: bool) -> None:
        self.name, self.skips_reset = name, skips_reset
        self._gains = np.zeros(number)
        self._lengths = np.zeros(number, dtype=np.int64)
        self._resets = np.zeros(number, dtype=bool)
        self._is_followed = True
        environments.follow_vector(self)

    @property
    def open_steps(self) -> int:
        """Steps of the episodes that have not ended."""
        return int(self._lengths.sum())

    def add(self, rewards: Any, ended: Any, success: Any = None, *, truncated: Any = None) -> None:
        """Take in a step of all; ``success(index)`` is asked of those that have ended, and may not know it.

        An episode is over that has ``ended``, or been ``truncated`` where that is told apart.
        """
        if not self._is_followed:
            return
        gains, ends = self._values_of(rewards), self._values_of(ended)
        cuts = ends if truncated is None else self._values_of(truncated)
        if gains is None or ends is None or cuts is None:
            self._is_followed = False
            self.begin()
            drops.count(Signal.METRICS, UNREADABLE)
            return
        self._take(gains, ends.astype(bool, copy=False) | cuts.astype(bool, copy=False), success)

    def _values_of(self, result: Any) -> Values | None:
        """Return a result as an array, with a value for each environment; None where it is anything else."""
        if isinstance(result, list | tuple) and all(isinstance(one, int | float | np.generic) for one in result):
            result = np.asarray(result)
        if isinstance(result, np.ndarray) and result.dtype.kind in _NUMERIC and result.shape == self._gains.shape:
            return result
        return None

    def _take(self, rewards: Values, ended: Values, success: Any) -> None:
        counts = ~self._resets
        self._gains += np.where(counts, rewards, 0.0)
        self._lengths += counts
        ended = ended & counts
        if self.skips_reset:
            self._resets = ended
        if not ended.any():
            return
        for index in np.flatnonzero(ended).tolist():
            known = success(index) if success is not None else None
            gain, length = float(self._gains[index]), int(self._lengths[index])
            environments.count_episode(self.name, gain, length, None if known is None else truth(known))
        self._gains[ended] = 0.0
        self._lengths[ended] = 0

    def begin(self) -> None:
        """Begin anew: all are reset. What has not ended is no episode."""
        environments.add_steps(self.name, self.open_steps)
        self._gains[:] = 0.0
        self._lengths[:] = 0
        self._resets[:] = False


def success_of(info: Any, index: int) -> bool | None:
    """Return what ``info``, a mapping of arrays, says of the environment at ``index``."""
    said: Mapping[str, Any] = info if isinstance(info, dict) else {}
    values = said.get(environments.SUCCESS)
    return bool(values[index]) if isinstance(values, np.ndarray) else None
