"""Which collectives are counted: those of Python at a few microseconds each, or all at ten to eighty more.

``auto`` begins with Python's. When DDP wraps a model it adds those of DDP. It turns to all after steps that issued
collectives which were not counted, if counting them costs a small share of such a step. It never turns back: PyTorch's
dispatcher cannot lose a kernel while another thread may be about to call it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from otel_rl.core.guard import logger

if TYPE_CHECKING:
    from collections.abc import Callable

AUTO = "auto"
PYTHON = "python"
ALL = "all"
OFF = "off"
#: Share of a step that counting all its collectives may cost, where the program did not ask for it.
LARGEST_SHARE = 0.005
#: Seconds that counting adds to a functional collective, an upper estimate; see benchmarks/collective_step.py.
COUNTING_SECONDS = 80e-6
#: Number of cheap steps in a row that it takes. The first step of a program is long and proves nothing.
CHEAP_STEPS = 3


class Kernels(Protocol):
    """What counts the collectives that Python does not issue."""

    @property
    def installed(self) -> bool:
        """Whether it counts all of them."""

    def covers(self, operation: str) -> bool:
        """Return whether collectives of this operation pass it."""

    def install(self) -> None:
        """Begin to count; raises where this version of the library does not allow it."""

    def install_for_ddp(self) -> None:
        """Begin to count those that DDP issues; raises likewise."""


class Mode:
    """Installs ``kernels``, as ``setting`` says.

    ``report`` gets, once and in words, why not all collectives can be counted.
    """

    def __init__(self, setting: str, kernels: Kernels, report: Callable[[str], None]) -> None:
        self._setting = setting
        self._kernels = kernels
        self._report = report
        #: Loop -> its latest steps in a row that were cheap enough. Those of another loop say nothing of them.
        self._cheap_steps: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._failed = self._counts_ddp = False

    def covers(self, operation: str) -> bool:
        """Return whether collectives of this operation pass a kernel, those of Python too."""
        return self._kernels.covers(operation)

    def group_made(self) -> None:
        """Install what ``all`` asks for: the program has made its default process group, and collectives can come."""
        if self._setting == ALL:
            self._install(self._kernels.install)

    def model_wrapped(self) -> None:
        """Install the kernels of DDP, which wraps a model: it issues a few collectives in each step by itself."""
        if self._setting == ALL:
            self._install(self._kernels.install)
        elif self._setting == AUTO:
            self._install(self._kernels.install_for_ddp)
            self._counts_ddp = not self._failed

    def step_closed(self, unseen: int | None, duration: float, loop: object) -> None:
        """Judge a step of ``loop`` that took ``duration`` s and had ``unseen`` collectives that were not counted.

        ``unseen`` is None where their number is unknown.
        """
        if unseen is None or self._setting not in (AUTO, ALL) or self._kernels.installed:
            return
        if not unseen:
            self._cheap_steps.pop(loop, None)
            return
        is_cheap = unseen * COUNTING_SECONDS <= LARGEST_SHARE * duration
        cheap = self._cheap_steps[loop] = self._cheap_steps.get(loop, 0) + 1 if is_cheap else 0
        if self._setting == ALL or cheap >= CHEAP_STEPS:
            self._install(self._kernels.install)

    def _install(self, install: Callable[[], None]) -> None:
        if self._failed or self._kernels.installed:
            return
        try:
            install()
        except Exception as error:  # noqa: BLE001 - names of PyTorch that are not public may be missing
            self._failed = True
            which, counted = ("other ", "Python and DDP") if self._counts_ddp else ("", "Python")
            reason = f"{which}collectives of C++ code cannot be counted ({type(error).__name__}: {error})"
            logger.warning("otel-rl: %s; those of %s are counted", reason, counted)
            self._report(reason)
