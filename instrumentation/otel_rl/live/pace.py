"""When a page is made anew."""

from __future__ import annotations

#: Between two renderings: at least so many seconds, and so long that they take this share of a core.
_LEAST_PAUSE, _SHARE = 2.0, 0.02
#: What has been read is shown after so many seconds at most. Files are written every 5 s: 8 s from a step to the page.
_MOST_DELAY = 2.0
#: Of a page that takes long, whatever waits.
_MOST_SHARE = 0.25
#: Without a browser: pauses between two looks for findings.
_UNWATCHED_PAUSE = 15.0


class Pace:
    """When the next rendering is due: soon after something was read, and so rarely that it costs little."""

    def __init__(self) -> None:
        self._cpu = self._ended = 0.0
        self._unshown: float | None = None

    @property
    def shows_all(self) -> bool:
        """True where nothing was read that is not shown."""
        return self._unshown is None

    def has_read(self, now: float) -> None:
        """Something was read that is not shown."""
        self._unshown = now if self._unshown is None else self._unshown

    def rendered(self, now: float, cpu: float) -> None:
        """Everything is shown; that took ``cpu`` seconds of a core."""
        self._cpu, self._ended, self._unshown = cpu, now, None

    def failed(self, now: float, cpu: float) -> None:
        """Keep that it could not be rendered, for ``cpu`` seconds of a core: the next try has its pause, too."""
        self._cpu, self._ended = cpu, now

    def is_due(self, now: float, *, is_urgent: bool, is_watched: bool) -> bool:
        """Return whether to render now."""
        pause = now - self._ended
        if pause < max(_LEAST_PAUSE, self._cpu / _MOST_SHARE):
            return False
        if is_urgent:
            return True
        if self._unshown is None:
            return False
        if not is_watched:
            return pause >= max(_UNWATCHED_PAUSE, self._cpu / _SHARE)
        return pause >= self._cpu / _SHARE or now - self._unshown >= _MOST_DELAY
