"""Whether a collective was counted in this process; a leaf, so that the exit summary loads no recorder for it."""

from __future__ import annotations

is_counted = False
