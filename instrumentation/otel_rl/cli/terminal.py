"""Text of programs for a terminal: nothing of it moves the cursor, changes colours, or hides other text."""

from __future__ import annotations

import shutil
import sys
import unicodedata

#: Categories of characters that are shown as escapes: controls, formats (such as those that change the direction of
#: the text), line and paragraph separators, surrogates.
_HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
_WIDE = frozenset("WF")
_ELLIPSIS, _ASCII_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}", "..."


def clean(text: str, *, keep: str = "") -> str:
    """Return the text with escapes in the place of control characters, except those in ``keep``.

    What the terminal's encoding does not have is escaped, too.
    """
    shown = "".join(_escaped(character) if _is_hidden(character, keep) else character for character in text)
    encoding = sys.stdout.encoding or "utf-8"
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def one_line(text: str) -> str:
    """Return the text in one line, without control characters."""
    return clean(" ".join(text.split()))


def _is_hidden(character: str, keep: str) -> bool:
    return character not in keep and unicodedata.category(character) in _HIDDEN


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def columns() -> int | None:
    """Return how many columns the terminal has; None where the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def width(text: str) -> int:
    """Return how many columns a text takes that :func:`clean` has returned."""
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def cut(text: str, most: int | None) -> str:
    """Return as much of the text as fits into ``most`` columns."""
    if most is None or width(text) <= most:
        return text
    dots = clean(_ELLIPSIS)
    dots = dots if len(dots) == 1 else _ASCII_ELLIPSIS
    room, taken = most - len(dots), []
    for character in text:
        room -= _width(character)
        if room < 0:
            break
        taken.append(character)
    return "".join(taken) + dots


def pad(text: str, size: int, *, right: bool = False) -> str:
    """Return the text with spaces up to ``size`` columns; ``right`` puts them before it."""
    spaces = " " * (size - width(text))
    return spaces + text if right else text + spaces
