"""Threads of the pipeline."""

from __future__ import annotations

import threading
from contextlib import suppress


class PipelineThread(threading.Thread):
    """A daemon thread that ends without a traceback where ``gevent.monkey.patch_all()`` ran after its start.

    gevent (26.9) replaces ``threading.get_ident``, with which ``threading.Thread._delete`` looks a thread up at its end.
    """

    def _delete(self) -> None:
        with suppress(KeyError):
            super()._delete()  # type: ignore[misc]  # private
