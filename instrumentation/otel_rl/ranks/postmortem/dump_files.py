"""Files of PyTorch's flight recorder and their content, whoever has written them: nothing in a file is run."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import stat
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

#: Larger files are refused. 2000 entries, which is PyTorch's default, take about 1 MiB.
MOST_BYTES = 16 << 20
#: So many files are read.
MOST_FILES = 4096
#: One byte of a hostile file makes a list of 56 bytes, or a mark, or a place in the memo. So many are read.
_MOST_PARTS = 1 << 20
#: PyTorch appends the rank to a prefix of the user's. The JSON form is written by users, who may give it an ending.
_NAME = re.compile(r"(?P<prefix>.*?)(?P<rank>\d{1,8})(\.json)?", re.DOTALL)
_RANK = re.compile(r"(?P<rank>\d{1,8})(\.json)?")
_SHOWN = 5


class UnreadableDump(Exception):  # noqa: N818 - reads as what it is
    """The file is no dump that can be read; the message says which and why, in one line."""


class DumpFile(NamedTuple):
    """A file that may be the dump of a rank."""

    path: Path
    rank: int
    #: When it was written (ns).
    written: int
    owner: int


def find_dumps(place: Path, notes: list[str], owners: Collection[int] | None = None) -> list[DumpFile]:
    """Find files at ``place``: a folder, the prefix that PyTorch was given, or one file. One file for each rank.

    Files that none of ``owners`` (user ids) owns are left out. ``notes`` gets a line for each thing left out.
    """
    if place.is_dir():
        names = _of_one_prefix(place, notes)
        candidates = _looked_at(place, names)
    else:
        prefix = "" if place.is_file() else place.name
        candidates = _looked_at(place.parent, _after(prefix, place))
    of_others = [file for file in candidates if owners is not None and file.owner not in owners]
    if of_others:
        notes.append(f"{len(of_others)} files at {printable(place)} are of another user and left out")
    newest: dict[int, DumpFile] = {}
    for file in sorted((file for file in candidates if file not in of_others), key=lambda file: file.written):
        newest[file.rank] = file
    chosen = sorted(newest.values(), key=lambda file: file.rank)
    if len(chosen) > MOST_FILES:
        notes.append(f"{printable(place)}: {len(chosen) - MOST_FILES} dumps beyond the first {MOST_FILES} are left out")
    return chosen[:MOST_FILES]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def _after(prefix: str, place: Path) -> dict[str, int]:
    """File name -> rank."""
    if not prefix:
        match = _NAME.fullmatch(place.name)
        return {place.name: int(match["rank"])} if match else {}
    matches = {name: _RANK.fullmatch(name[len(prefix) :]) for name in _names(place.parent) if name.startswith(prefix)}
    return {name: int(match["rank"]) for name, match in matches.items() if match}


def _of_one_prefix(folder: Path, notes: list[str]) -> dict[str, int]:
    by_prefix: dict[str, dict[str, int]] = {}
    for name in _names(folder):
        match = _NAME.fullmatch(name)
        if match and (folder / name).is_file():
            by_prefix.setdefault(match["prefix"], {})[name] = int(match["rank"])
    if len(by_prefix) < 2:  # noqa: PLR2004 - one, or none
        return next(iter(by_prefix.values()), {})
    listed = ", ".join(printable(folder / prefix) for prefix in list(by_prefix)[:_SHOWN])
    notes.append(f"{printable(folder)} holds files of {len(by_prefix)} prefixes: give one of them, such as {listed}")
    return {}


def _looked_at(folder: Path, names: dict[str, int]) -> list[DumpFile]:
    files = []
    for name, rank in names.items():
        try:
            what = (folder / name).stat()
        except OSError:
            continue
        if stat.S_ISREG(what.st_mode):
            files.append(DumpFile(folder / name, rank, what.st_mtime_ns, what.st_uid))
    return files


def content(path: Path) -> Any:
    """Return what the dump in ``path`` holds: dictionaries, lists, tuples, texts and numbers, and nothing else.

    Raises:
        UnreadableDump: with the reason.
    """
    data = _bytes(path)
    if not data:
        raise UnreadableDump(f"{printable(path)}: empty: its process ended while it wrote the file")
    try:
        return json.loads(data) if data.lstrip()[:1] in b"{[" else _Reader(data).load()
    except UnreadableDump as reason:
        raise UnreadableDump(f"{printable(path)}: {reason}") from None
    except EOFError:
        raise UnreadableDump(f"{printable(path)}: cut after {len(data)} bytes") from None
    except Exception as problem:  # noqa: BLE001 - what a damaged file leads to
        raise UnreadableDump(
            f"{printable(path)}: not a dump of PyTorch's flight recorder, or damaged ({type(problem).__name__})"
        ) from None


def _bytes(path: Path) -> bytes:
    try:
        # It may have become a pipe, which would never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UnreadableDump(f"{printable(path)}: not a file")
            # A file object of a folder is refused, and leaves the descriptor open.
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(MOST_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as problem:
        raise UnreadableDump(f"{printable(path)}: {problem.strerror}") from problem
    if len(data) > MOST_BYTES:
        raise UnreadableDump(f"{printable(path)}: larger than {MOST_BYTES >> 20} MiB")
    return data


def printable(text: object, most: int = 512) -> str:
    """``text`` cut, and without what no terminal should get."""
    shown = str(text)[:most]
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in shown)


#: What PyTorch's pickler writes for a dump, and Python's for the same content. None of these looks anything up.
_ALLOWED = (
    *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE),
    *(pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.BINFLOAT),
    *(pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.BINPUT, pickle.LONG_BINPUT),
    *(pickle.BINGET, pickle.LONG_BINGET, pickle.APPEND, pickle.APPENDS),
)
_COUNTED = (
    *(pickle.MARK, pickle.MEMOIZE),
    *(pickle.EMPTY_DICT, pickle.EMPTY_LIST, pickle.EMPTY_TUPLE),
    *(pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3),
)
_BASE = pickle._Unpickler  # noqa: SLF001 - the one in C takes 64 GiB for a place in its memo that 5 bytes name


def _counted(build: Callable[[Any], None]) -> Callable[[Any], None]:
    def build_one(reader: _Reader) -> None:
        reader.parts += 1
        if reader.parts > _MOST_PARTS:
            raise UnreadableDump(f"more than {_MOST_PARTS} lists, dictionaries and marks")
        build(reader)

    return build_one


class _Reader(_BASE):
    """Reads a pickle of plain values. An instruction for anything else is an error."""

    #: What the base class has while it loads.
    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.parts = 0

    def find_class(self, module: str, name: str) -> Any:
        """No class and no function has a place in a dump."""
        raise UnreadableDump(f"it asks for {printable(module, 64)}.{printable(name, 64)}, which no dump does")

    def persistent_load(self, pid: Any) -> Any:
        """Nor has a reference to something outside."""
        raise UnreadableDump("it refers to something outside, which no dump does")

    def refuse(self) -> None:
        """Refuse an instruction that no dump holds."""
        raise UnreadableDump("it holds an instruction that no dump holds")

    def load_setitem(self) -> None:
        """One pair."""
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def load_setitems(self) -> None:
        """Pairs since the mark."""
        self._set(self.pop_mark())

    def _set(self, items: list[Any]) -> None:
        # Keys of nested tuples take time without end to hash.
        if not all(type(key) is str for key in items[::2]):
            raise UnreadableDump("a key is no text")
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **dict.fromkeys(_BASE.dispatch, refuse),
        **{code[0]: _BASE.dispatch[code[0]] for code in _ALLOWED},
        **{code[0]: _counted(_BASE.dispatch[code[0]]) for code in _COUNTED},
        pickle.GLOBAL[0]: _BASE.dispatch[pickle.GLOBAL[0]],
        pickle.STACK_GLOBAL[0]: _BASE.dispatch[pickle.STACK_GLOBAL[0]],
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
    }
