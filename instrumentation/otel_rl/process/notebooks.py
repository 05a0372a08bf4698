"""The name of the notebook that a kernel runs: each front end tells it in another way, or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.process import child_processes

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOTEBOOK = ".ipynb"


def name(environ: Mapping[str, str]) -> str:
    """Return the stem of the notebook's file, ``notebook`` where nobody tells it."""
    # Set by the servers of notebooks: jupyter_server 2, notebook 7.
    path = environ.get("JPY_SESSION_NAME") or _of_vs_code() or _of_command(child_processes.command_line(os.getppid()))
    return Path(path.rstrip("/")).stem or "notebook"


def _of_vs_code() -> str:
    """Return what Visual Studio Code writes into the namespace of its kernels."""
    module = sys.modules.get("IPython.core.interactiveshell")
    shells = getattr(module, "InteractiveShell", None)
    if shells is None or not shells.initialized():
        return ""
    return str(shells.instance().user_ns.get("__vsc_ipynb_file__") or "")


def _of_command(argv: list[str]) -> str:
    """Return the notebook that a command executes, as nbconvert, papermill and ``jupyter execute`` do.

    The first one is the input, where papermill names the output too. Of several inputs nobody says whose kernel it is.
    """
    named = [argument for argument in argv[1:] if argument.endswith(_NOTEBOOK) and not argument.startswith("-")]
    is_papermill = any("papermill" in argument for argument in argv[:3])
    return named[0] if len(set(named)) == 1 or (named and is_papermill) else ""
