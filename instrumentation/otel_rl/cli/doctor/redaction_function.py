"""Whether the function that ``OTEL_RL_REDACT`` names can be imported.

It is imported in a process of its own: the module may print, end the process, or take long.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.telemetry import redaction

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMEOUT = 60.0
"""Seconds that the import may take."""
_USABLE = "usable"
# What the module prints goes to standard error, so that standard output has the answer alone.
_CODE = f"""\
import os, sys
answer = os.dup(1)
os.dup2(2, 1)
if sys.argv[2:]:
    # A script's folder stands in place of the working directory.
    sys.path[:1] = sys.argv[2:]
from otel_rl.telemetry import redaction
os.write(answer, (redaction.why_unusable(sys.argv[1]) or {_USABLE!r}).encode())
"""


def problem(specification: str, command: Sequence[str]) -> str:
    """Return one line that says why a run of ``command`` could not call the function; empty where it could.

    Without a command the module is looked for in the working directory and on ``PYTHONPATH``.
    """
    scripts = [Path(word) for word in command if word.endswith(".py") and Path(word).is_file()]
    if redaction.bad_form(specification):
        return redaction.bad_form(specification)
    if specification.partition(":")[0] in {script.stem for script in scripts}:
        # The program itself: to import it would be to run it.
        return ""
    reason = _try(specification, [str(script.parent.resolve()) for script in scripts])
    if not reason:
        return ""
    line = redaction.complaint(specification, reason)
    if scripts or not reason.startswith("No module named"):
        return line
    return (
        f"{line}. It was looked for in {Path.cwd()} and on PYTHONPATH; for a program in another folder run"
        " `otel-rl doctor -- python FOLDER/train.py`"
    )


def _try(specification: str, folders: Sequence[str]) -> str:
    """Return why the function cannot be imported with ``folders`` in front of the import path."""
    command = [sys.executable, "-c", _CODE, specification, *folders]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return f"its import takes longer than {TIMEOUT:.0f} s"
    said = done.stdout.decode(errors="replace")
    if not said:
        return f"its import ends the process with exit code {done.returncode}"
    return "" if said == _USABLE else said
