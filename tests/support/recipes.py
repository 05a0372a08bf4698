"""The recipes of CONTRIBUTING, as the files that they tell to write."""

from __future__ import annotations

import textwrap
from pathlib import Path

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def files_of(heading: str, folder: str) -> dict[str, str]:
    """Return the files of the recipe under `heading`, by their path below `folder`."""
    section = CONTRIBUTING.read_text(encoding="utf-8").partition(f"### {heading}")[2]
    files = {}
    for block in section.partition("\n### ")[0].split("```python\n")[1:]:
        first, _, text = textwrap.dedent(block.partition("```")[0]).partition("\n")
        files[first.removeprefix(f"# {folder}/").strip()] = text
    return files
