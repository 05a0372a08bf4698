"""How much CPU time the comparison of ranks may take: a share of one core, some of which may be saved up."""

from __future__ import annotations


class Allowance:
    """CPU time that may be spent; it grows with time.

    Args:
        share: Of one core.
        most: Seconds of CPU time that may be saved up; so much is there at the beginning.
    """

    def __init__(self, share: float, most: float) -> None:
        self._share = share
        self._most = most
        self._counted: float | None = None
        #: Seconds of CPU time; negative where more was spent than was there.
        self.left = most

    def grow(self, now: float) -> None:
        """Add what has come up to ``now``, in seconds of the monotonic clock."""
        if self._counted is not None:
            self.left = min(self.left + (now - self._counted) * self._share, self._most)
        self._counted = now

    def spend(self, seconds: float) -> None:
        """Take so much CPU time off."""
        self.left -= seconds

    @property
    def pause(self) -> float:
        """Seconds until the overspent CPU time has grown back."""
        return max(-self.left, 0.0) / self._share
