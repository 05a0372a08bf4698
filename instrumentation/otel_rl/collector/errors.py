"""The one exception of this package: a configuration that is refused."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818  (a choice that is refused is no error of the program)
    """The configuration that was asked for cannot work; the message gives the reason and the fix."""
