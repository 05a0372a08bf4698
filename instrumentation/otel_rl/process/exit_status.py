"""The exit status of this process, in a file that the C library writes when the interpreter has ended.

Python does not say with which status it will end: that of ``sys.exit`` is a variable of C
(``_Py_HandleSystemExit`` in CPython's ``Python/pythonrun.c``), and ``sys.exit`` stays as it is. glibc hands the status
to functions registered with ``on_exit(3)``, and ``fputc(3)`` has the form of one: it puts one byte, the status, into a
stream, which is written at the very end. So the file is empty while the process ends, and stays so where a signal or
``os._exit`` ends it. Other C libraries have no ``on_exit``: no file.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NAME = "exit_status"
_MODE = 0o600


def write_at_exit(directory: Path) -> None:
    """Have the status written into ``directory``; call this once, at the end.

    Raises:
        AttributeError: the C library cannot do it.
        OSError: the file cannot be made.
    """
    library = ctypes.CDLL(None)
    on_exit, put, open_ = library.on_exit, library.fputc, library.fdopen
    open_.restype = ctypes.c_void_p
    # Not fopen(3): its files can be read by all.
    descriptor = os.open(directory / NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
    stream = open_(descriptor, b"wb")
    if stream:
        on_exit(put, ctypes.c_void_p(stream))


def read(directory: Path) -> int | None:
    """Return the status that a process with this folder has left; None where there is none.

    Raises:
        FileNotFoundError: the process was not about to end in order, or could not leave one.
        OSError: it cannot be read.
    """
    content = (directory / NAME).read_bytes()
    return content[0] if content else None
