"""Sentences that stand in several places of the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.report.core import human

if TYPE_CHECKING:
    from otel_rl.report.core.steps import Steps
    from otel_rl.store.reader.unreadable import Unreadable


#: Files that are named of those that cannot be read.
_FILES = 3
NO_MANIFEST = "the files of a collector do not tell"
NO_STEP = "no trace of a step was recorded"
#: Ends a sentence on the share of a time, where the calls of it overlap.
AT_ONCE = ", in calls that run at once"
#: Where rollouts come from in a program that stays as it is.
ROLLOUT_FUNCTIONS = (
    "the functions that OTEL_RL_ROLLOUT_FUNCTIONS names (module:function), without a change to the program"
)
PAUSES = (
    "The steps are guessed: what the program does between two of them is part of the later one, such as a rollout, an"
    " evaluation of its own or a wait for input."
)


def model(name: str) -> str:
    """Return the model of a span ``{operation} {model}``; the whole name where there is no operation."""
    return name.partition(" ")[2] or name


def error(kind: str) -> str:
    """Return the type of an error without its module; what is no name of a type as it is."""
    return kind if " " in kind else kind.rpartition(".")[2]


def unseen(steps: Steps) -> str:
    """Return one sentence on collectives that were not seen, ``""`` when there were none."""
    if not steps.unseen.count:
        return ""
    several, each = human.number(steps.unseen.count), human.number(round(steps.unseen.mean))
    of_all = human.amount(steps.lengths.cell.count, "step of one rank", "steps of all ranks")
    hidden = "a rank that makes the others wait may not show"
    if steps.seen.count:
        hidden = "the other steps alone tell which rank makes the others wait"
    return (
        f"{several} of {of_all} issued collectives that are not seen (DDP's"
        f" reducer, functional or compiled ones; at least {each} a step): the time in collectives is too low, and"
        f" {hidden}."
    )


def unreadable(problems: Unreadable) -> str:
    """Return one sentence on the lines and files that could not be read, ``""`` when there were none."""
    parts = [
        (problems.cut_off, "line cut off at the end of a file", "lines cut off at the end of files"),
        (problems.unreadable, "line is no JSON", "lines are no JSON"),
        (problems.foreign, "line is no OTLP", "lines are no OTLP"),
        (len(problems.errors), "file cannot be read whole", "files cannot be read whole"),
    ]
    said = [human.amount(number, singular, plural) for number, singular, plural in parts if number]
    named = [_of_its_process(error) for error in problems.errors[:_FILES]]
    named += [f"and {len(problems.errors) - _FILES} more"] * (len(problems.errors) > _FILES)
    files = f" ({'; '.join(named)})" if named else ""
    return f"Not read: {', '.join(said)}{files}." if said else ""


def _of_its_process(error: str) -> str:
    """Return what is said of a file with its name in the folder of its process, and not with its whole path."""
    path, separator, reason = error.partition(": ")
    return f"{'/'.join(Path(path).parts[-2:])}{separator}{reason}"
