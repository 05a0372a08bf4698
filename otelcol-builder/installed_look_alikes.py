"""Write texts that look like secrets and are none, from the sources of the packages that are installed here.

    python otelcol-builder/installed_look_alikes.py FILE

Each text is a line with a word such as `token`, `key` or `hash`, or the paragraph that such a line stands in. The
redaction has to leave them as they are (`check.py score`). The sources change with the packages, so nobody can tune a
rule to them.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = (
    *("torch", "transformers", "trl", "vllm", "verl", "ray", "accelerate", "datasets", "tokenizers", "deepspeed"),
    *("peft", "langchain", "langchain_core", "langgraph", "openai", "huggingface_hub", "triton", "pyarrow", "fsspec"),
)
SUFFIXES = {".py", ".pyi", ".md", ".json", ".yaml"}
WORDS = re.compile(
    "token|key|secret|passw|pass\\b|auth|credential|hash|digest|sha\\d|uuid|checkpoint|commit|_id\\b|base64",
    re.IGNORECASE,
)
LONGEST_FILE = 1 << 20
LONGEST_LINE = 1000
LONGEST_PARAGRAPH = 4000
MOST_LINES = 40_000
MOST_PARAGRAPHS = 10_000
LEAST_LINES = 20_000


def sources(folder: Path) -> Iterator[Path]:
    """Yield every third file of the packages, but not their tests, which hold made-up credentials."""
    for package in PACKAGES:
        for file in sorted((folder / package).rglob("*"))[::3]:
            if file.suffix in SUFFIXES and not {"test", "tests"} & set(file.parts) and file.is_file():
                yield file


def read(file: Path) -> str:
    """Return the text of a file, or nothing where it is long or no text."""
    if file.stat().st_size > LONGEST_FILE:
        return ""
    try:
        return file.read_text()
    except UnicodeDecodeError:
        return ""


def chosen(texts: set[str], most: int) -> list[str]:
    """Return so many of the texts, the same ones each time, from all over the packages."""
    return sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())[:most]


def look_alikes(folder: Path) -> tuple[list[str], list[str]]:
    """Return lines and paragraphs of the packages in a folder."""
    lines: set[str] = set()
    paragraphs: set[str] = set()
    for file in sources(folder):
        for paragraph in read(file).split("\n\n"):
            found = [line.strip() for line in paragraph.split("\n") if WORDS.search(line) and len(line) <= LONGEST_LINE]
            lines.update(found)
            if found and "\n" in paragraph and len(paragraph) <= LONGEST_PARAGRAPH:
                paragraphs.add(paragraph)
    return chosen(lines, MOST_LINES), chosen(paragraphs, MOST_PARAGRAPHS)


def write(target: Path, folder: Path) -> bool:
    """Write the texts as a suite; false where too few packages are installed to make one."""
    lines, paragraphs = look_alikes(folder)
    with target.open("w") as file:
        for kind, texts in (("line", lines), ("paragraph", paragraphs)):
            for number, text in enumerate(texts):
                placement = ("body", "attribute")[number % 2]
                file.write(json.dumps({"text": text, "secrets": [], "class": kind, "placement": placement}) + "\n")
    return len(lines) >= LEAST_LINES


if __name__ == "__main__":
    sys.exit(not write(Path(sys.argv[1]), Path(sysconfig.get_path("purelib"))))
