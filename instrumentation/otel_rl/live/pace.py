"""When a page is made anew: all of it so rarely that it costs little, its steps and curves soon after they are read."""

from __future__ import annotations

#: Seconds between two renderings at least, and the share of a core that they may take for as long as they last.
_LEAST_PAUSE, _MOST_SHARE = 2.0, 0.25
#: What has been read is shown after so many seconds at most. Files are written every 5 s: 8 s from a step to the page.
_MOST_DELAY = 2.0
#: Share of a core that renderings of all the page take, and seconds between two of them at most, whatever they take.
_SHARE, _MOST_PAUSE = 0.007, 60.0
#: Without a browser: pauses between two looks for findings.
_UNWATCHED_PAUSE = 15.0


class Pace:
    """When the next rendering is due.

    A rendering is whole, or of what is cheap to show and changes with every step.
    """

    def __init__(self) -> None:
        self._cpu = self._ended = 0.0
        self._whole_cpu = self._whole_ended = 0.0
        #: Since when something is read that no rendering shows, and that no whole one shows.
        self._unshown: float | None = None
        self._partly_shown: float | None = None

    @property
    def shows_all(self) -> bool:
        """True where nothing was read that is not shown."""
        return self._partly_shown is None

    def has_read(self, now: float) -> None:
        """Something was read that is not shown."""
        self._unshown = now if self._unshown is None else self._unshown
        self._partly_shown = now if self._partly_shown is None else self._partly_shown

    def rendered(self, now: float, cpu: float, *, is_whole: bool = True) -> None:
        """Everything is shown, or its steps and curves; that took ``cpu`` seconds of a core."""
        self._cpu, self._ended, self._unshown = cpu, now, None
        if is_whole:
            self._whole_cpu, self._whole_ended, self._partly_shown = cpu, now, None

    def failed(self, now: float, cpu: float, *, is_whole: bool = True) -> None:
        """Keep that it could not be rendered, for ``cpu`` seconds of a core: the next try has its pause, too."""
        self._cpu, self._ended = cpu, now
        if is_whole:
            self._whole_cpu, self._whole_ended = cpu, now

    def is_due(self, now: float, *, is_urgent: bool, is_watched: bool) -> bool:
        """Return whether to render now."""
        if now - self._ended < max(_LEAST_PAUSE, self._cpu / _MOST_SHARE):
            return False
        if is_urgent:
            return True
        is_whole_due = self._partly_shown is not None and self.is_whole_due(now)
        if not is_watched:
            return is_whole_due and now - self._ended >= _UNWATCHED_PAUSE
        return is_whole_due or (self._unshown is not None and now - self._unshown >= _MOST_DELAY)

    def is_whole_due(self, now: float) -> bool:
        """Return whether a rendering of all the page costs little by now."""
        return now - self._whole_ended >= min(self._whole_cpu / _SHARE, _MOST_PAUSE)
