"""Files of ``/proc``, for what runs at each step or many times a second."""

from __future__ import annotations

import os

#: Larger than any of the files that are read, in bytes.
_LARGEST = 8192


def read(path: str) -> bytes:
    """Return the content of a file of ``/proc``, without the cost of a file object.

    Raises:
        OSError: there is no such file, or it may not be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _LARGEST)
    finally:
        os.close(descriptor)
