"""What a process group is called in the flight recorder: its name, its description and the ranks in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.flight_recorder import layout
from otel_rl.ranks.model.groups import Group

if TYPE_CHECKING:
    from types import ModuleType

#: Longest parts, in bytes: the text has a fixed place. Names of torch are numbers or hashes.
_NAME, _DESCRIPTION = 40, 24


def describe(module: ModuleType, process_group: Any) -> Group:
    """Return the group with its name, description and ranks; where these have no room, with their number only.

    The name is the same in all ranks of the group and no other group has it at the same time. Descriptions may repeat.
    """
    name, description = _cut(process_group.group_name, _NAME), _cut(process_group.group_desc, _DESCRIPTION)
    # Two tabs lie between the three.
    room = layout.GROUP_ROOM - len(name.encode()) - len(description.encode()) - 2
    return Group.of(name, description, _ranks(module, process_group), room=room)


def _ranks(module: ModuleType, process_group: Any) -> list[int] | None:
    try:
        return list(module.get_process_group_ranks(process_group))
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return None


def _cut(text: object, most: int) -> str:
    return str(text).encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
