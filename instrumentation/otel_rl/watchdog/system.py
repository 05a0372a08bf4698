"""What the thread needs of the system, taken by name before gevent can patch it: its own would run in a hub that hangs.

Imported at the start of the process, long before the thread begins.
"""

from __future__ import annotations

from _thread import get_ident
from select import POLLOUT, poll
from time import monotonic

__all__ = ["POLLOUT", "get_ident", "monotonic", "poll"]
