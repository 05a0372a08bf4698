"""The one exception of the reader: bad input that its user can put right."""

from __future__ import annotations


class UnusableInput(Exception):  # noqa: N818 - read as "the input is unusable", not as a crash
    """What was given cannot be read; the message is one line that says what to do."""
