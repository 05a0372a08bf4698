"""Batches that a data loader has given before it is known whether a guessed step, or an evaluation, has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.semconv import spans
from otel_rl.training.guessed_records import LoaderSums

if TYPE_CHECKING:
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.training.guessed_records import TimedPart

#: Most parts of a step that are kept until its end: further ones are durations only, summed until a step is open.
MAXIMUM_PARTS = 256


class Held:
    """The batches of a data loader that no backward pass has followed yet."""

    __slots__ = ("began", "is_whole", "more", "sums", "waits")

    def __init__(self, began: Moment, *, is_whole: bool) -> None:
        self.began = began
        #: Whether they are all that the loader has given since it began.
        self.is_whole = is_whole
        self.sums = LoaderSums()
        self.waits: list[TimedPart] = []
        #: Seconds of the waits beyond those that are kept.
        self.more = 0.0

    def wait(self, began: Moment, ended: Moment) -> None:
        """Keep how long the program has waited for a batch."""
        if len(self.waits) < MAXIMUM_PARTS:
            self.waits.append((spans.RL_DATA_WAIT, began, ended))
        else:
            self.more += ended.counter - began.counter

    def forget_waits(self) -> None:
        """Keep no waits: their time is recorded, or is no step's."""
        self.waits, self.more = [], 0.0
