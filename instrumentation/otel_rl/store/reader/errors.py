"""The exceptions of the reader: what its user can put right."""

from __future__ import annotations


class UnusableInput(Exception):  # noqa: N818 - read as "the input is unusable", not as a crash
    """The input cannot be read; the message is one line that gives the fix."""


class NoRoom(UnusableInput):
    """The tables do not fit on the disk; the message names the folder and the fix."""
