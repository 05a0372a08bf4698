"""What a process group is called in the flight recorder: its name, its description and the ranks in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

#: Longest parts, in characters: the text has a fixed place. Names of torch are numbers or hashes.
_NAME, _DESCRIPTION, _RANKS = 40, 24, 56
_UNKNOWN = "?"


def describe(module: ModuleType, process_group: Any) -> str:
    """Return name, description and ranks, separated by tabs; unknown or too many ranks are ``?``.

    The name is the same in all ranks of the group and no other group has it. Descriptions may repeat.
    """
    name, description = str(process_group.group_name), str(process_group.group_desc)
    return "\t".join((name[:_NAME], description[:_DESCRIPTION], _ranks(module, process_group)))


def _ranks(module: ModuleType, process_group: Any) -> str:
    try:
        ranks = sorted(module.get_process_group_ranks(process_group))
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return _UNKNOWN
    text = ",".join(_ranges(ranks))
    return text if text and len(text) <= _RANKS else _UNKNOWN


def _ranges(ranks: list[int]) -> list[str]:
    """``[0, 1, 2, 5]`` as ``["0-2", "5"]``."""
    ranges: list[list[int]] = []
    for rank in ranks:
        if ranges and rank == ranges[-1][1] + 1:
            ranges[-1][1] = rank
        else:
            ranges.append([rank, rank])
    return [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
