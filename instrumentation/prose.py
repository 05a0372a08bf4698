"""Counts the words of each sentence in docstrings, comments and pages.

    python -m instrumentation.prose [--check] [FILE ...]

Without files it reads all of the repository's. A line per file: sentences, mean number of words, words of the longest
sentence, where it begins. ``--check`` fails where a mean is above its limit, and prints only those.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
#: Words a sentence, on average over a file.
LIMIT = 20.0
README_LIMIT = 15.0
#: Below this number a mean says little.
FEWEST_SENTENCES = 5

_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"'`*]*\s+(?=[A-Z`\"'(*:\d])")
#: Text that counts as one word: code, links, references of Sphinx.
_CODE = re.compile(r"``[^`]*``|:\w+:`[^`]*`|`[^`]*`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|approx)\.")
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
#: A row of a table, as the docstrings of packages have one.
_ROW = re.compile(r"^(?:=+\s|\S+(?: \S+)*\s{2,}\S)")
#: Sections of a docstring are lists: every entry is a sentence of its own.
_ENTRY = re.compile(r"^\s+\w[\w ,.*]*:\s")


class Sentence(NamedTuple):
    """One sentence: the line where its paragraph begins, its words."""

    line: int
    words: int
    text: str


def sentences_of(text: str, line: int) -> Iterator[Sentence]:
    """Split one paragraph of plain text."""
    # With a capital: a sentence may begin with code.
    text = _CODE.sub("Code", _LINK.sub(r"\1", text))
    text = _ABBREVIATIONS.sub(lambda found: found.group(0).replace(".", ""), text)
    for sentence in _SENTENCE_END.split(" ".join(text.split())):
        # Numbers and signs are not words; code and names are.
        words = [word for word in sentence.split() if re.search(r"[A-Za-z]", word)]
        if len(words) > 1:
            yield Sentence(line, len(words), sentence)


def paragraphs_of_page(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and list entries of a Markdown page; code, tables, headings and HTML are left out."""
    collected: list[str] = []
    began, in_code = 0, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped = line.strip()
        fence = stripped.startswith("```")
        leaves = fence or in_code or not stripped or stripped.startswith(("|", "#", "<", ">", "!"))
        if (leaves or _BULLET.match(line)) and collected:
            yield began, " ".join(collected)
            collected = []
        in_code ^= fence
        if leaves:
            continue
        if not collected:
            began = number
        collected.append(_BULLET.sub("", line).strip())


def paragraphs_of_program(source: str) -> Iterator[tuple[int, str]]:
    """Paragraphs of the docstrings of a Python file, and blocks of comments on lines of their own."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield from _paragraphs_of_docstring(docstring, getattr(node, "lineno", 1))
    yield from _comments(source)


def _paragraphs_of_docstring(text: str, line: int) -> Iterator[tuple[int, str]]:
    collected: list[str] = []
    for content in [*text.splitlines(), ""]:
        row = _ROW.match(content)
        if (not content.strip() or row or _ENTRY.match(content) or _BULLET.match(content)) and collected:
            yield line, " ".join(collected)
            collected = []
        if row:
            continue
        is_code = content.startswith("    ") and not collected and not _ENTRY.match(content)
        if content.strip() and not is_code:
            collected.append(_BULLET.sub("", content).strip())


def _comments(source: str) -> Iterator[tuple[int, str]]:
    collected: list[str] = []
    began = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or token.line[: token.start[1]].strip():
            continue
        text = token.string.lstrip("#: ").strip()
        if collected and token.start[0] != last + 1:
            yield began, " ".join(collected)
            collected = []
        if not collected:
            began = token.start[0]
        last = token.start[0]
        if not text.startswith(("ruff:", "type:", "noqa", "--", "!")):
            collected.append(text)
    if collected:
        yield began, " ".join(collected)


def read(path: Path) -> list[Sentence]:
    """Return all sentences of a Markdown or Python file.

    Raises:
        SyntaxError: the Python file cannot be parsed.
    """
    text = path.read_text(encoding="utf-8")
    paragraphs = paragraphs_of_page(text) if path.suffix == ".md" else paragraphs_of_program(text)
    return [sentence for line, paragraph in paragraphs for sentence in sentences_of(paragraph, line)]


def mean(sentences: Iterable[Sentence]) -> float:
    """Words a sentence."""
    words = [sentence.words for sentence in sentences]
    return sum(words) / len(words) if words else 0.0


def is_too_long(path: Path, sentences: list[Sentence]) -> bool:
    """Whether the mean of a file is above its limit."""
    limit = README_LIMIT if path == ROOT / "README.md" else LIMIT
    return len(sentences) >= FEWEST_SENTENCES and mean(sentences) > limit


def files() -> list[Path]:
    """Python files and pages that git knows, without generated ones."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    paths = [ROOT / name for name in listed if name and "corpora/" not in name]
    return [path for path in paths if path.is_file() and "enerated" not in path.read_text(encoding="utf-8")[:300]]


def main(arguments: list[str] | None = None) -> int:
    """Print the report; the exit status is 1 when ``--check`` finds a mean above its limit."""
    parser = argparse.ArgumentParser(prog="python -m instrumentation.prose")
    parser.add_argument("--check", action="store_true", help="print and refuse only what is above its limit")
    parser.add_argument("files", nargs="*", type=Path, help="Python files or Markdown pages (default: all)")
    options = parser.parse_args(arguments)
    status = 0
    for path in [path.resolve() for path in options.files] or files():
        sentences = read(path)
        too_long = is_too_long(path, sentences)
        status |= too_long
        if sentences and (too_long or not options.check):
            longest = max(sentences, key=lambda sentence: sentence.words)
            name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            sys.stdout.write(f"{len(sentences):5} {mean(sentences):6.1f} {longest.words:4}  {name}:{longest.line}\n")
    return status if options.check else 0


if __name__ == "__main__":
    sys.exit(main())
