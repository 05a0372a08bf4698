"""The command ``opentelemetry-instrument``: it leaves the program's arguments and import path as they are.

Upstream's ``opentelemetry.instrumentation.auto_instrumentation.run`` (0.66b1) imports our environment-variables entry
point, parses its arguments, puts two folders in front of ``PYTHONPATH`` and replaces itself by the program. It has no
setting for any of this, so its names ``getcwd`` and ``execl`` are rebound.
"""

# ruff: noqa: PTH120 - upstream's own calls

from __future__ import annotations

import os
import sys
from functools import partial

from otel_rl.core import stderr
from otel_rl.distro import import_path
from otel_rl.process import child_processes, launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

_UPSTREAM = "opentelemetry.instrumentation.auto_instrumentation"
_PYTHON_PATH = "PYTHONPATH"
#: Only upstream's start-up can do this one.
_GEVENT = "OTEL_PYTHON_AUTO_INSTRUMENTATION_EXPERIMENTAL_GEVENT_PATCH"
#: The options that take no value.
_FLAGS = ("-h", "--help", "--version")


def take_over() -> None:
    """Correct the command where it is what runs; any other importer of the entry point changes nothing."""
    namespace = _namespace()
    if namespace is not None:
        separate_program(sys.argv)
        namespace["getcwd"] = _working_directory
        namespace["execl"] = partial(_execute, os.environ.get(_PYTHON_PATH, ""))


def _namespace() -> dict[str, Any] | None:
    # The caller decides: only upstream's run() is followed by an exec.
    frame: FrameType | None = sys._getframe()  # noqa: SLF001
    while frame is not None:
        if frame.f_globals.get("__name__") == _UPSTREAM and frame.f_code.co_name == "run":
            return frame.f_globals
        frame = frame.f_back
    return None


def separate_program(argv: list[str]) -> None:
    """Insert ``--`` in front of the program.

    Without it argparse also looks at the program's arguments, and ends with an error where one abbreviates several
    options: https://github.com/python/cpython/issues/66623.
    """
    position = 1
    while position < len(argv) and argv[position].startswith("-") and argv[position] not in ("-", "--"):
        position += 1 if "=" in argv[position] or argv[position] in _FLAGS else 2
    if position < len(argv) and argv[position] != "--":
        argv.insert(position, "--")


def _working_directory() -> str:
    """Return ``os.getcwd()``, also where the directory has been deleted: the program can start there, so it does."""
    try:
        return os.getcwd()  # noqa: PTH109 - upstream's call
    except FileNotFoundError:
        return ""


def _execute(python_path: str, executable: str | None, *arguments: str) -> None:
    """Become the program, with the user's ``python_path`` and our bootstrap folder."""
    environ = os.environ
    if executable is None:
        # As a shell reports it.
        _refuse("no such program; check its name", 127)
    if environ.get("OTEL_PYTHON_DISTRO") == launch.NAME and _GEVENT not in environ:
        folder = os.path.dirname(sys.modules[_UPSTREAM].__file__ or "")
        environ[_PYTHON_PATH] = import_path.with_bootstrap(python_path, folder)
        environ[child_processes.MARKER] = child_processes.FIRST
        launch.prepare(environ)
    try:
        os.execl(executable, *arguments)  # noqa: S606 - upstream's call
    except OSError as error:
        _refuse(error.strerror or str(error), 126)


def _refuse(reason: str, status: int) -> NoReturn:
    """End with one line, and with the command that was meant where the program is a file of Python."""
    words = sys.argv[sys.argv.index("--") + 1 :]
    name = words[0]
    if name.endswith(".py") and os.path.isfile(name):  # noqa: PTH113 - pathlib costs more than all of this
        import shlex  # noqa: PLC0415 - only here

        reason = f"this is no program; did you mean: opentelemetry-instrument python {shlex.join(words)}"
    stderr.write_line(f"opentelemetry-instrument: {name}: {reason}")
    sys.exit(status)
