"""Which collectives are seen: those of Python at about a microsecond each, or all at about twenty.

``auto`` begins with Python's. It turns to all where a program has others: with the first model that DDP wraps, or after
a step that issued collectives which were not seen. It changes between steps only.

Where all would cost more than :data:`LARGEST_SHARE` of a step, only one of several steps is watched in full. How many
is a power of two, and a step is watched where its iteration is a multiple of it. So ranks that measure different costs
still watch the same steps, those of the rank that watches least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from otel_rl.internal_errors import logger

if TYPE_CHECKING:
    from collections.abc import Callable

AUTO, PYTHON, ALL, OFF = "auto", "python", "all", "off"
#: Share of a step that watching all its collectives may cost before steps are left out.
LARGEST_SHARE = 0.005
#: Every such step is watched in full at least.
LONGEST_PERIOD = 256
#: Seconds that watching takes per collective that Python does not issue, and to begin and end; rather too much (torch
#: 2.13 on a server CPU: 15 to 30 microseconds, 4 milliseconds).
COST, COST_OF_CHANGE = 25e-6, 5e-3


class Kernels(Protocol):
    """What sees the collectives that Python does not issue."""

    #: Collectives counted so far.
    calls: int

    @property
    def installed(self) -> bool:
        """True while it counts."""

    def install(self) -> None:
        """Begin to count; raises where this version of the library does not allow it."""

    def remove(self) -> None:
        """Stop counting."""


class Mode:
    """Puts ``kernels`` on and takes them off, as ``setting`` says.

    ``report`` is told once, in words, why not all collectives can be seen.
    """

    def __init__(self, setting: str, kernels: Kernels, report: Callable[[str], None]) -> None:
        self._setting = setting
        self._kernels = kernels
        self._report = report
        self._wanted = setting == ALL
        self._open = 0
        self._calls = 0
        #: One of so many steps is watched in full.
        self.period = 1
        #: Why not all collectives can be seen; empty where they can, or where nobody has tried.
        self.reason = ""

    def group_made(self) -> None:
        """The program has made its default process group: collectives can come."""
        if self._wanted and not self._open:
            self._install()

    def model_wrapped(self) -> None:
        """DDP wraps a model: collectives that Python does not see will come."""
        if self._setting == AUTO:
            self._wanted = True
            self.group_made()

    def step_opened(self, iteration: int) -> None:
        """A step begins: the place to change."""
        if not self._open and self._wanted:
            if iteration % self.period:
                self._kernels.remove()
            else:
                self._install()
        self._open += 1
        self._calls = self._kernels.calls

    def step_closed(self, unseen: int, duration: float) -> None:
        """A step has ended after ``duration`` s, in which ``unseen`` collectives were not seen."""
        self._open = max(self._open - 1, 0)
        if self._setting != AUTO:
            return
        if unseen and not self.reason:
            self._wanted = True
        if self._kernels.installed and duration > 0:
            cost = (self._kernels.calls - self._calls) * COST
            if cost > LARGEST_SHARE * duration:
                cost += COST_OF_CHANGE
            self._choose_period(cost / duration / LARGEST_SHARE)

    def stop(self) -> None:
        """Take the kernels off, for good."""
        self._wanted = False
        self._setting = OFF
        self._kernels.remove()

    def _choose_period(self, excess: float) -> None:
        # Half as much again before it is shortened: a step that is a little longer must not change it.
        while self.period < LONGEST_PERIOD and excess > self.period:
            self.period *= 2
        while self.period > 1 and excess * 1.5 < self.period / 2:
            self.period //= 2

    def _install(self) -> None:
        if self.reason or self._kernels.installed:
            return
        try:
            self._kernels.install()
        except Exception as error:  # noqa: BLE001 - names of PyTorch that are not public may be missing
            self.reason = f"collectives of C++ code cannot be seen ({type(error).__name__}: {error})"
            self._wanted = False
            logger.warning("otel-rl: %s; those of Python are counted", self.reason)
            self._report(self.reason)
