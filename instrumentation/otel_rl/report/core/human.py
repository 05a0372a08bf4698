"""Numbers, times and lists as people read them."""

from __future__ import annotations

import math
from datetime import datetime, timezone

UNKNOWN, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_LISTED = 12
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def duration(seconds: float | None) -> str:
    """Return ``83 µs``, ``412 ms``, ``2.41 s``, ``3 min 12 s``, ``5 h 07 min``, ``2 d 3 h``."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 0:
        return "-" + duration(-seconds)
    return _short(seconds) if seconds < _MINUTE else _long(round(seconds))


def _short(seconds: float) -> str:
    for scale, unit in ((1e6, "µs"), (1e3, "ms")):
        # Three digits are shown: what would round to 1000 belongs to the next unit.
        if 0 < seconds * scale < 999.5:  # noqa: PLR2004
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def _long(seconds: int) -> str:
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} min {seconds % _MINUTE:02d} s"
    if seconds < _DAY:
        return f"{seconds // _HOUR} h {seconds % _HOUR // _MINUTE:02d} min"
    return f"{seconds // _DAY} d {seconds % _DAY // _HOUR} h"


def number(value: float | None) -> str:
    """Return ``0.00042``, ``3.14``, ``12,345``, ``1.2e+09``: four digits that matter."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == int(value) and abs(value) < 1e9:  # noqa: PLR2004
        return f"{int(value):,}"
    if abs(value) >= 1000 and abs(value) < 1e9:  # noqa: PLR2004
        return f"{value:,.0f}"
    return f"{value:.4g}"


def three_digits(value: float) -> str:
    """Return ``0.0512``, ``5.12``, ``5,120``: without an exponent."""
    return f"{float(f'{value:.3g}'):,.10g}"


def scientific(value: float) -> str:
    """Return a number; a very small one as 4.2 times 10⁻⁵."""
    if not value or abs(value) >= 1e-3:  # noqa: PLR2004
        return number(value)
    digits, _, exponent = f"{value:.2e}".partition("e")
    return f"{float(digits):g} {TIMES} {power(int(exponent))}"


def power(exponent: int) -> str:
    """Return ``10⁻⁶``."""
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def short_number(value: float) -> str:
    """Return ``81,920``, ``24.6 M``, ``3.2 G``: for a place with little room."""
    for scale, unit in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= scale:
            return f"{value / scale:,.3g} {unit}"
    return number(value)


def size(value: float | None) -> str:
    """Return bytes: ``512 B``, ``3.1 KiB``, ``2.4 GiB``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        # Three digits are shown: what would round to 1000 belongs to the next unit.
        if abs(value) < 999.5:  # noqa: PLR2004
            return f"{value:.3g} {unit}" if unit != "B" else f"{value:.0f} B"
        value /= 1024
    return f"{value:,.3g} TiB" if value < 999.5 else f"{value:,.0f} TiB"  # noqa: PLR2004


def percent(share: float | None) -> str:
    """Return ``0.4 %``, ``37 %``."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    value = share * 100
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"  # noqa: PLR2004


def moment(nanoseconds: int | None) -> str:
    """Return date and time in UTC."""
    if not nanoseconds:
        return UNKNOWN
    return datetime.fromtimestamp(nanoseconds / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(second: int) -> str:
    """Return the time of day of a second since the epoch: ``22:15:07 UTC``."""
    return moment(second * 10**9).partition(" ")[2]


def amount(value: float, noun: str, plural: str | None = None) -> str:
    """Return ``1 step``, ``20 steps``."""
    return f"{number(value)} {noun if value == 1 else plural or noun + 's'}"


def capital(text: str) -> str:
    """Return the text with its first letter in upper case, the rest as it is."""
    return text[:1].upper() + text[1:]


def listed(items: list[str]) -> str:
    """Return ``a, b, c``; of a long list the first ones and the number of the rest."""
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return ", ".join(items[:_LISTED]) + more
