"""Cells of a notebook that raise: IPython prints the exception, and its kernel goes on."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.core.import_hooks import hooks
from otel_rl.ending import exceptions
from otel_rl.telemetry import exception_text, run_span
from otel_rl.telemetry.attribute_values import error_type

if TYPE_CHECKING:
    from types import ModuleType

#: What the last cell raised, by its ``id``: the object itself would hold the cell's frames and all that they refer to.
_last: int | None = None


def watch() -> None:
    """Listen to the shell of IPython that this process has, or will have."""
    hooks.after_import("IPython.core.interactiveshell", _follow_shells)


def _follow_shells(module: ModuleType) -> None:
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
    """Be told of each cell that ends, and how tracebacks name it: its file does not exist."""
    shell.events.register("post_run_cell", _cell_ended)
    # Since IPython 8.
    format_code_name = getattr(shell.compile, "format_code_name", None)
    if format_code_name is None:
        return

    def name(file: str) -> str | None:
        named = format_code_name(file)
        return None if named is None else " ".join(named)

    exception_text.name_of_code = name


def _cell_ended(result: Any) -> None:
    global _last
    with guard("notebook_cells.ended"):
        # What a front end runs for itself is not in the history, and has no number.
        if result.execution_count is not None:
            error = result.error_before_exec or result.error_in_exec
            _last = None if error is None else id(error)
            if error is not None:
                exceptions.record(error, cell=result.execution_count)


def record_ending() -> None:
    """Note at exit that the last cell failed: nbconvert and papermill end the kernel then."""
    error = getattr(sys, "last_value", None)
    if error is not None and id(error) == _last and not isinstance(error, KeyboardInterrupt):
        exceptions.ending = f"uncaught {error_type(error)} in the last cell"
        # A kernel ends with status 0 all the same.
        run_span.fail(error, status=None)
