"""Dumps of PyTorch's flight recorder: what each tells of its rank, by group and number of the collective."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from otel_rl.flight_recorder.reader import MOST_RANKS
from otel_rl.ranks.model.groups import Group
from otel_rl.ranks.postmortem.dump_files import UnreadableDump, content, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from otel_rl.ranks.postmortem.dump_files import DumpFile

#: The newest entries of a dump that are looked at.
_MOST_ENTRIES = 50_000
#: Tensors of an entry and dimensions of a tensor that are looked at, and frames that are shown.
_MOST_TENSORS, _MOST_DIMENSIONS, _MOST_FRAMES = 16, 8, 16
_MOST_TEXT = 256
#: Groups whose ranks are read, and characters of their ranks.
_MOST_GROUPS, _MOST_RANKS_TEXT = 512, 1 << 18
_LAST_MOMENT = 1 << 63
#: The format of PyTorch 2.4 to 2.13 has versions 2.1 to 2.10. The first number changes with the meaning of a field.
_VERSION = re.compile(r"2\.\d{1,4}")
_RANK = re.compile(r"\d{1,8}")
#: Gloo gives no moment of the completion.
_GLOO = "gloo"

COMPLETED, STARTED, SCHEDULED = "completed", "started", "scheduled"
#: Of gloo: over, whether in order or with an error. Of NCCL: given up without a completion.
RETURNED, TIMED_OUT = "returned", "timed out"
#: Folders between the call of the program and what PyTorch records.
_INSIDE = ("/torch/", "/otel_rl/")
_STATES = frozenset({COMPLETED, STARTED, SCHEDULED})


class Frame(NamedTuple):
    """Where a collective was called."""

    function: str
    file: str
    line: int

    @property
    def words(self) -> str:
        """The frame for a sentence."""
        return f"{self.function} at {self.file}:{self.line}"


class Tensors(NamedTuple):
    """Shapes and types of what goes in, or comes out."""

    shapes: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]
    #: The entry has more of them than are held here.
    more: int = 0

    @property
    def words(self) -> str:
        """Shapes with types, for a table."""
        types = self.types if len(set(self.types)) > 1 else self.types[:1]
        shapes = " ".join(map(_shape, self.shapes)) + (f" and {self.more} more" if self.more else "")
        return f"{shapes} {'/'.join(types)}".strip()


@dataclass(frozen=True)
class DumpEntry:
    """One collective, send or receive of a dump. Moments are ns since the epoch; None: not known."""

    rank: int
    #: Without the backend, as PyTorch names it: ``all_reduce``.
    operation: str
    backend: str
    group: Group
    #: Number in its group; None: a send or receive, which has none that the ranks share.
    number: int | None
    #: :data:`COMPLETED`, :data:`STARTED`, :data:`SCHEDULED`, :data:`RETURNED` or :data:`TIMED_OUT`.
    state: str
    inputs: Tensors
    outputs: Tensors
    created: int | None
    started: int | None
    completed: int | None
    #: Of all entries of the dump.
    record: int
    _frames: Any = None

    @property
    def is_over(self) -> bool:
        """True where the rank waits no longer."""
        return self.state in (COMPLETED, RETURNED)

    @property
    def words(self) -> str:
        """The collective for a sentence."""
        number = "" if self.number is None else f" number {self.number}"
        return f"{self.operation}{number} of group {self.group.words}"

    @property
    def frames(self) -> list[Frame]:
        """Where it was called, the innermost frame first; empty where PyTorch wrote none."""
        raw = self._frames if isinstance(self._frames, list) else []
        return [_frame(frame) for frame in raw[:_MOST_FRAMES] if isinstance(frame, dict)]

    @property
    def called_from(self) -> Frame | None:
        """The innermost frame outside of PyTorch, and of our patches of it."""
        frames = self.frames
        outside = (frame for frame in frames if not any(folder in frame.file for folder in _INSIDE))
        return next(outside, frames[0] if frames else None)


@dataclass
class Dump:
    """The dump of one rank: the contents of one file."""

    path: Path
    rank: int
    version: str
    #: When the file was written (ns); copying a file can change it.
    written: int
    #: In the order in which they were issued.
    entries: list[DumpEntry] = field(default_factory=list)
    #: Group -> entries by number; several where they were issued as one.
    numbered: dict[Group, dict[int, list[DumpEntry]]] = field(default_factory=dict)
    #: The first entry of the process is still there, and none is missing after it.
    is_whole: bool = False
    #: Entries that make no sense.
    torn: int = 0

    def entered(self, group: Group) -> int:
        """Return the number of the last collective of the group; 0: none."""
        return max(self.numbered.get(group, ()), default=0)

    @property
    def last(self) -> list[DumpEntry]:
        """The last collective of each group, and sends and receives that are not over, the latest first."""
        latest = {group: entries[max(entries)][-1] for group, entries in self.numbered.items()}
        waiting = [entry for entry in self.entries if entry.number is None and not entry.is_over]
        return sorted([*latest.values(), *waiting[-1:]], key=lambda entry: entry.record, reverse=True)


def read(files: Iterable[DumpFile], notes: list[str], groups: Iterable[Group] = ()) -> list[Dump]:
    """Read ``files``; one that cannot be read gets a line in ``notes``.

    ``groups`` are known ones. Those of gloo have no ranks in a dump.
    """
    known = {(group.name, group.description): group.first for group in groups}
    dumps = []
    for file in files:
        try:
            dumps.append(_dump(file, content(file.path), known))
        except UnreadableDump as reason:  # noqa: PERF203 - the others are read
            notes.append(str(reason))
    return dumps


def _dump(file: DumpFile, document: Any, known: Mapping[tuple[str, str], Group]) -> Dump:
    if not isinstance(document, dict) or not isinstance(document.get("version"), str) or "pg_config" not in document:
        raise UnreadableDump(f"{printable(file.path)}: not a dump of PyTorch's flight recorder")
    version = printable(document["version"], 16)
    if not _VERSION.fullmatch(version):
        raise UnreadableDump(f"{printable(file.path)}: a dump of version {version}; versions 2.x are known")
    # The JSON form has no entries where there are none.
    raw = document.get("entries", [])
    if not isinstance(raw, list):
        raise UnreadableDump(f"{printable(file.path)}: its entries are no list")
    dump = Dump(file.path, file.rank, version, file.written)
    groups = _Groups(document["pg_config"], known)
    for fields in islice(raw, max(len(raw) - _MOST_ENTRIES, 0), None):
        entry = _entry(file.rank, fields, groups)
        if entry is None:
            dump.torn += 1
            continue
        dump.entries.append(entry)
        if entry.number is not None:
            dump.numbered.setdefault(entry.group, {}).setdefault(entry.number, []).append(entry)
    records = [entry.record for entry in dump.entries]
    dump.is_whole = bool(records) and records == list(range(len(records)))
    return dump


class _Groups:
    """Groups by name and description."""

    def __init__(self, document: Any, known: Mapping[tuple[str, str], Group]) -> None:
        self._config_by_name = document if isinstance(document, dict) else {}
        self._known = dict(known)

    def __call__(self, name: str, description: str) -> Group:
        group = self._known.get((name, description))
        if group is None:
            config = self._config_by_name.get(name) if len(self._known) < _MOST_GROUPS else None
            ranks = _ranks(config.get("ranks")) if isinstance(config, dict) else None
            group = Group.of(printable(name, _MOST_TEXT), printable(description, _MOST_TEXT), ranks)
            self._known[name, description] = group
        return group


def _ranks(value: Any) -> list[int] | None:
    """Read ``[0, 1]``, which PyTorch writes as a text."""
    numbers = (
        _RANK.findall(value[:_MOST_RANKS_TEXT]) if isinstance(value, str) else value if isinstance(value, list) else ()
    )
    if not numbers or not all(_RANK.fullmatch(rank) if isinstance(rank, str) else _is_number(rank) for rank in numbers):
        return None
    ranks = list(map(int, numbers))
    return ranks if max(ranks) <= MOST_RANKS else None


def _is_number(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < _LAST_MOMENT


def _entry(rank: int, fields: Any, groups: _Groups) -> DumpEntry | None:
    """None where it is not what an entry is."""
    if not isinstance(fields, dict):
        return None
    name, number, record = (fields.get(key) for key in ("profiling_name", "collective_seq_id", "record_id"))
    group = fields.get("process_group")
    if not (_is_group(group) and isinstance(name, str) and _is_number(number) and _is_number(record)):
        return None
    backend, _, operation = printable(name, _MOST_TEXT).rpartition(":")
    return DumpEntry(
        rank=rank,
        operation=operation,
        backend=backend,
        group=groups(*group),
        number=None if fields.get("is_p2p") is True or operation.startswith(("send ", "recv ")) else number,
        state=_state(fields, backend),
        inputs=_tensors(fields.get("input_sizes"), fields.get("input_dtypes")),
        outputs=_tensors(fields.get("output_sizes"), fields.get("output_dtypes")),
        created=_moment(fields.get("time_created_ns")),
        started=_moment(fields.get("time_discovered_started_ns")),
        completed=_moment(fields.get("time_discovered_completed_ns")),
        record=record,
        _frames=fields.get("frames"),
    )


def _is_group(value: Any) -> TypeGuard[Sequence[str]]:
    """Return whether this is a name with a description."""
    is_pair = isinstance(value, (list, tuple)) and len(value) == 2  # noqa: PLR2004
    return is_pair and all(isinstance(text, str) for text in value)


def _state(fields: dict[str, Any], backend: str) -> str:
    state = fields.get("state")
    if not isinstance(state, str) or state not in _STATES:
        state = SCHEDULED
    if state != COMPLETED and fields.get("retired") is True:
        return RETURNED if backend == _GLOO else TIMED_OUT
    return state


def _moment(value: Any) -> int | None:
    # The JSON form has 0 where the pickle has None.
    return value if _is_number(value) and value else None


def _tensors(sizes: Any, types: Any) -> Tensors:
    shapes = sizes if isinstance(sizes, list) else []
    return Tensors(
        tuple(
            tuple(size for size in shape[:_MOST_DIMENSIONS] if _is_number(size))
            for shape in shapes[:_MOST_TENSORS]
            if isinstance(shape, list)
        ),
        tuple(
            printable(name, 32)
            for name in (types[:_MOST_TENSORS] if isinstance(types, list) else ())
            if isinstance(name, str)
        ),
        max(len(shapes) - _MOST_TENSORS, 0),
    )


def _shape(sizes: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _frame(fields: dict[str, Any]) -> Frame:
    line = fields.get("line")
    return Frame(_text(fields.get("name")), _text(fields.get("filename")), line if _is_number(line) else 0)


def _text(value: Any) -> str:
    # Lists in lists would take time without end to write out.
    return printable(value, _MOST_TEXT) if isinstance(value, str) else "?"
