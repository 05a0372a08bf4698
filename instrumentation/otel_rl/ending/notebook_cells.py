"""Cells of a notebook: one that raises, after which the kernel goes on, and the pauses between them."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.ending import exceptions
from otel_rl.telemetry import exception_text

if TYPE_CHECKING:
    from types import ModuleType

#: What the last cell raised, by its ``id``: the object itself would hold the cell's frames and all that they refer to.
_last: int | None = None


def follow(module: ModuleType) -> None:
    """Listen to the shell of IPython that this process has, or will have; ``module`` is that of its class."""
    exceptions.is_of_last_cell = _is_last
    shells = module.InteractiveShell
    if shells.initialized():
        _listen(shells.instance())
    init_events = shells.init_events

    @functools.wraps(init_events)
    def init_events_and_listen(shell: Any) -> Any:
        result = init_events(shell)
        with guard("notebook_cells.listen"):
            _listen(shell)
        return result

    shells.init_events = init_events_and_listen


def _listen(shell: Any) -> None:
    """Be told of each cell that begins and ends, and how tracebacks name it: its file does not exist."""
    shell.events.register("pre_run_cell", _cell_begins)
    shell.events.register("post_run_cell", _cell_ended)
    # Since IPython 8.
    format_code_name = getattr(shell.compile, "format_code_name", None)
    if format_code_name is None:
        return

    def name(file: str) -> str | None:
        named = format_code_name(file)
        return None if named is None else " ".join(named)

    exception_text.name_of_code = name


def _cell_begins(_: Any) -> None:
    with guard("notebook_cells.begins"):
        guessing = sys.modules.get("otel_rl.training.guessed_steps")
        if guessing is not None and guessing.running is not None:
            guessing.running.goes_on()


def _cell_ended(result: Any) -> None:
    global _last
    with guard("notebook_cells.ended"):
        # What a front end runs for itself is not in the history, and has no number.
        if result.execution_count is not None:
            error = result.error_in_exec if result.error_before_exec is None else result.error_before_exec
            _last = None if error is None else id(error)
            if error is not None:
                exceptions.record(error, cell=result.execution_count)


def _is_last(error: BaseException) -> bool:
    """Return whether the last cell raised it, as where nbconvert or papermill ends the kernel then; not for Ctrl-C."""
    return id(error) == _last and not isinstance(error, KeyboardInterrupt)
