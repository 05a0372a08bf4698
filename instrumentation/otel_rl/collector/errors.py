"""The one exception of this package: a configuration that is refused."""

from __future__ import annotations

from otel_rl.core import addresses


class Refused(Exception):  # noqa: N818  (a choice that is refused is no error of the program)
    """The configuration that was asked for cannot work; the message gives the reason and the fix.

    It quotes variables, settings and the program's own words: no address in it shows its password.
    """

    def __init__(self, message: str) -> None:
        super().__init__(addresses.without_secrets(message))
