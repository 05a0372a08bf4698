"""The number of a process group's latest collective, as torch counts them, whoever issued it."""

from __future__ import annotations

from typing import Any


def latest_number(process_group: Any) -> int | None:
    """Return the number; None where the backend numbers none.

    ``ProcessGroup._get_sequence_number_for_group`` is not public (the same from torch 2.4 to 2.13).
    """
    try:
        return int(process_group._get_sequence_number_for_group())  # noqa: SLF001 - see above
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
