"""What a case is: a program, its bug, and what is true of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Truth:
    """What is wrong in a run; written before the run was looked at."""

    #: What went wrong, for a person.
    cause: str
    #: A finding that names the cause matches this; words may differ, so it lists those that say the same.
    cause_words: str
    #: A finding that names the place matches this: a tool, value, rank, server or function. ``{first}`` and
    #: ``{second}`` are the addresses of the servers.
    place_words: str
    #: First step that differs; None if the run has no steps by then or was so from the start.
    onset: int | None
    #: The least that a reader would notice of it.
    effect: str
    #: How many of the steps that a report may count make one of these: 256 for environment steps of an iteration.
    counted_by: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class Case:
    """One recorded run."""

    name: str
    #: Script in `programs`, or in the folder of the case's module.
    program: str
    arguments: tuple[str, ...] = ()
    #: Name of the bug, as the program knows it.
    bug: str = ""
    truth: Truth | None = None
    #: Ranks that torchrun starts; 0: no torchrun.
    ranks: int = 0
    #: More arguments of each attempt; several attempts are one run.
    attempts: tuple[tuple[str, ...], ...] = ((),)
    #: Exit statuses that are expected of the attempts; None stands for any.
    statuses: tuple[int | None, ...] = (0,)
    #: Busy processes beside the run, from its begin to its end.
    beside: int = 0
    #: Seconds after which these begin.
    beside_after: float = 0.0
    environ: tuple[tuple[str, str], ...] = ()
    #: Whether it is in the part that runs in minutes.
    quick: bool = False
