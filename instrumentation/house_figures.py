"""Hold the figures of the house: how much there is of code, classes and words, in tests/house.toml.

Run it as `python -m instrumentation.house_figures`. It writes what became better and never what became worse. With
`--check` nothing is written. The exit status is 1 if a figure is worse than its line, with `--check` also if one is
better.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import tomllib  # type: ignore[import-not-found,unused-ignore]  # tools run on Python 3.11 and later

from instrumentation import generated_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]
HOUSE = Path("tests/house.toml")
PACK = Path("instrumentation/otel_rl")
#: Lines that a module may have without being listed.
LONG_MODULE = 400
#: Names that a message lists; of more it gives the number.
_FEW = 20

HEAD = """\
# Figures of the house, which instrumentation/house_figures.py counts. One that is worse than its line fails a test.
# `make generate` writes a better one. For a worse one, edit its line and give the reason in the commit's body.

"""
NUMBERS = {
    "code_lines": "lines of code of the pack: no comments, docstrings and blank lines",
    "classes": "classes of the pack at the top level of a module",
    "undocumented_functions": "public functions and methods of the pack without a docstring",
    "generated_modules": "modules of the pack that nothing else here counts; their docstring names `make generate`",
    "own_variables": "names OTEL_RL_* in docs, collector-config and the pack",
    "readme_words": "words of README.md",
    "docs_words": "words of docs/**/*.md without docs/reference",
}
TABLES = {
    "long_modules": f"lines of each module of the pack that has more than {LONG_MODULE}",
    "shared_class_names": "files of the pack for each class name that more than one has",
}
#: A figure and, in a table, what it is of: a module, a class.
Key = tuple[str, str]
Figures = dict[Key, int]


class HouseError(Exception):
    """tests/house.toml cannot be read; the message says why and what to do."""


class Counted(NamedTuple):
    """Figures of a checkout, and the names behind them."""

    figures: Figures
    names: Mapping[Key, list[str]]


class Module:
    """A module of the pack that is written by hand."""

    def __init__(self, name: str, text: str, tree: ast.Module) -> None:
        self.name = name
        self.lines = text.count("\n")
        self.classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        #: Places and names of functions and methods without a docstring and without a leading underscore.
        self.undocumented: list[str] = []
        docstrings: set[int] = set()
        for node in ast.walk(tree):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if ast.get_docstring(node, clean=False) is not None:
                docstrings |= _lines_of(node.body[0])
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                self.undocumented.append(f"{name}:{node.lineno} {node.name}")
        self.code_lines = len(_lines_with_code(text) - docstrings)


def _lines_of(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


_NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def _lines_with_code(text: str) -> set[int]:
    return {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }


def count(root: Path = ROOT) -> Counted:
    """Count the figures of the checkout in ``root``."""
    modules, generated = _modules(root / PACK)
    undocumented = [place for module in modules for place in module.undocumented]
    users = _users_of_shared_names(modules)
    figures = {
        ("code_lines", ""): sum(module.code_lines for module in modules),
        ("classes", ""): sum(len(module.classes) for module in modules),
        ("undocumented_functions", ""): len(undocumented),
        ("generated_modules", ""): len(generated),
        ("own_variables", ""): len(_own_variables(root)),
        ("readme_words", ""): _words(root / "README.md"),
        ("docs_words", ""): sum(map(_words, _pages(root / "docs"))),
        **{("long_modules", module.name): module.lines for module in modules if module.lines > LONG_MODULE},
        **{key: len(files) for key, files in users.items()},
    }
    names = {("undocumented_functions", ""): undocumented, ("generated_modules", ""): generated, **users}
    return Counted(figures, names)


def _modules(pack: Path) -> tuple[list[Module], list[str]]:
    """Return the modules that are written by hand, and the names of those that are generated."""
    modules, generated = [], []
    for path in sorted(pack.rglob("*.py")):
        name, text = path.relative_to(pack).as_posix(), path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        if "`make generate`" in (ast.get_docstring(tree) or ""):
            generated.append(name)
        else:
            modules.append(Module(name, text, tree))
    return modules, generated


def _users_of_shared_names(modules: list[Module]) -> dict[Key, list[str]]:
    users: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for name in dict.fromkeys(module.classes):
            users[name].append(module.name)
    return {("shared_class_names", name): files for name, files in sorted(users.items()) if len(files) > 1}


def _own_variables(root: Path) -> set[str]:
    files = [*(root / "docs").rglob("*.md"), *(root / PACK).rglob("*.py")]
    files += [path for path in (root / "collector-config").rglob("*") if path.suffix in {".md", ".yaml", ".py"}]
    return {
        name
        for path in files
        for name in re.findall(r"\bOTEL_RL_[A-Z0-9_]*[A-Z0-9]\b", path.read_text(encoding="utf-8", errors="ignore"))
    }


def _pages(docs: Path) -> Iterator[Path]:
    return (path for path in docs.rglob("*.md") if path.relative_to(docs).parts[0] != "reference")


def _words(page: Path) -> int:
    return len(page.read_text(encoding="utf-8").split())


def read(path: Path) -> Figures:
    """Return the figures that are written down in ``path``.

    Raises:
        HouseError: the file is missing or damaged, or a figure is missing, unknown or no number.
    """
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HouseError(f"{HOUSE} is missing; put it back: git checkout HEAD -- {HOUSE}") from None
    except ValueError as error:  # no TOML, or no UTF-8
        raise HouseError(
            f"{HOUSE} is damaged: {error}. Put it back (git checkout HEAD -- {HOUSE}), or solve its merge conflict: "
            "take one side, run `make generate`, and write what it counts now into the lines that it calls worse"
        ) from None
    known = {**NUMBERS, **TABLES}
    if lacking := sorted(known.keys() - written.keys()):
        raise HouseError(f"{HOUSE} lacks {', '.join(lacking)}; put the line back")
    if unknown := sorted(written.keys() - known.keys()):
        raise HouseError(f"{HOUSE} has {', '.join(unknown)}, which nothing counts")
    figures: Figures = {(name, ""): _number(name, written[name]) for name in NUMBERS}
    for name in TABLES:
        if not isinstance(written[name], dict):
            raise HouseError(f"{HOUSE}: {name} is no table: [{name}]")
        figures |= {(name, item): _number(f"{name}.{item}", value) for item, value in written[name].items()}
    return figures


def _number(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise HouseError(f"{HOUSE}: {name} is {value!r}, no whole number")


class Difference(NamedTuple):
    """A figure that is not what is written down; None is an item that its table does not list."""

    key: Key
    written: int | None
    counted: int | None

    @property
    def is_worse(self) -> bool:
        """Whether it is worse than what is written down."""
        return (self.counted or 0) > (self.written or 0)

    def text(self, names: list[str]) -> str:
        """Return a line with the figure, both values and, if it is worse, ``names``; of many only their number."""
        name, item = self.key
        title = f"{name}, {item}," if item else name
        verdict = "worse" if self.is_worse else "better"
        written, counted = ("not listed" if value is None else value for value in (self.written, self.counted))
        line = f"{title} is {verdict}: {written} before, {counted} now ({(NUMBERS | TABLES)[name]})"
        if not self.is_worse or not names:
            return line
        few = ": " + ", ".join(names) if len(names) <= _FEW else ""
        return f"{line}; {len(names)} of them{few}"


def differences(written: Figures, counted: Figures) -> list[Difference]:
    """Return the figures that differ, in the file's order."""
    keys = dict.fromkeys([*counted, *written])
    every = [Difference(key, written.get(key), counted.get(key)) for key in keys]
    return [each for each in every if each.written != each.counted]


def complaint(different: list[Difference], names: Mapping[Key, list[str]]) -> str:
    """Return a line for each figure that differs, and what to do if one is worse."""
    lines = [f"{HOUSE}: {difference.text(names.get(difference.key, []))}\n" for difference in different]
    if any(difference.is_worse for difference in different):
        lines.append(f"Make what is worse better, or edit {HOUSE} and give the reason in the commit's body.\n")
    return "".join(lines)


def page(written: Figures, different: list[Difference]) -> str:
    """Return the file with what became better."""
    figures = dict(written)
    for difference in different:
        if difference.is_worse:
            continue
        if difference.counted is None:
            del figures[difference.key]
        else:
            figures[difference.key] = difference.counted
    rows = [f"{name} = {figures[name, '']} # {meaning}" for name, meaning in NUMBERS.items()]
    for name, meaning in TABLES.items():
        items = sorted((item, value) for (table, item), value in figures.items() if table == name)
        rows += ["", f"# {meaning}", f"[{name}]", *(f'"{item}" = {value}' for item, value in items)]
    return HEAD + "\n".join(rows) + "\n"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write or compare; returns the exit status."""
    try:
        written = read(root / HOUSE)
    except HouseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    counted = count(root)
    different = differences(written, counted.figures)
    current = {root / HOUSE: page(written, different)}
    status = generated_files.main("instrumentation.house_figures", "the figures of the house", current, arguments)
    worse = [difference for difference in different if difference.is_worse]
    sys.stderr.write(complaint(different if status else worse, counted.names))
    return 1 if worse else status


if __name__ == "__main__":
    sys.exit(main())
