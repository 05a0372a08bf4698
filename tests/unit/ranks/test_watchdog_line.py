"""The line on standard error never blocks the watchdog."""

from __future__ import annotations

import os
import sys

from otel_rl.ranks.watchdog import reports


def _full_pipe():
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 65536)
    except BlockingIOError:
        os.set_blocking(writing, True)
    return reading, writing


def test_a_line_is_left_out_where_nobody_reads_standard_error(monkeypatch):
    reading, writing = _full_pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(sys, "__stderr__", stream)
        reports.write_line("a line")


def test_a_line_reaches_standard_error(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading) as read, os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(sys, "__stderr__", stream)
        reports.write_line("a line")
        assert read.readline() == "a line\n"
