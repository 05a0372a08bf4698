"""The counter of words behind `make lint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentation import prose

if TYPE_CHECKING:
    from pathlib import Path

PAGE = """# A heading is no sentence

One sentence of five words. Another one, with `code that counts` once; and a [link with text](https://example.org/a.b).

* An entry without a full stop
* Another entry

| a table | is left out |
|---|---|

```
Code is left out. Completely.
```
"""

PROGRAM = '''"""What the module does.

=========  =====================
``name``   a table is left out
=========  =====================

Two more. Sentences here.
"""

# A comment over
# two lines.
value = 1  # beside code it is left out


def function():
    """Return something.

    Args:
        first: an entry of its own.
    """
'''


def _words(path: Path) -> list[int]:
    return [sentence.words for sentence in prose.read(path)]


def test_sentences_of_a_page_are_those_of_its_paragraphs_and_entries(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert _words(page) == [5, 10, 6, 2]


def test_a_sentence_may_begin_with_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Run it once. `otel-rl` then says what it found. `make` lists more!")
    assert _words(page) == [3, 6, 3]


def test_sentences_of_a_program_are_those_of_docstrings_and_comments(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert sorted(_words(program)) == sorted([4, 2, 2, 2, 5, 6])


def test_the_check_names_a_file_whose_sentences_are_too_long_and_fails(tmp_path: Path, capsys) -> None:
    short, long = tmp_path / "short.md", tmp_path / "long.md"
    short.write_text("Few words here. " * 10)
    long.write_text(("Word " + "and word " * 15 + "end. ") * 10)
    assert prose.main(["--check", str(short)]) == 0
    assert prose.main(["--check", str(short), str(long)]) == 1
    assert capsys.readouterr().out.split() == ["10", "32.0", "32", f"{long}:1"]
