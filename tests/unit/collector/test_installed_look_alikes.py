"""The texts that the redaction has to leave alone come from the sources of installed packages."""

import json
import subprocess
import sys
from pathlib import Path

BUILDER = Path(__file__).resolve().parents[3] / "otelcol-builder"


def suite_of(target: Path, folder: Path) -> tuple[bool, list[dict[str, object]]]:
    """Write the suite of the packages in a folder, and return what was said and written."""
    program = (
        "import sys, pathlib, installed_look_alikes as made;"
        "sys.exit(not made.write(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))"
    )
    done = subprocess.run([sys.executable, "-c", program, target, folder], cwd=BUILDER, check=False)
    return done.returncode == 0, [json.loads(line) for line in target.read_text().splitlines()]


def test_lines_and_paragraphs_with_a_word_are_taken_and_no_tests_of_a_package(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    (package / "tests").mkdir(parents=True)
    (package / "a.py").write_text("eos_token = 1\n\nfor key in keys:\n    use(it)\n\nloss = 2\n")
    for name in ("tests/b.py", "tests/c.py", "tests/d.py"):
        (package / name).write_text("api_key = 'made up'\n")
    enough, texts = suite_of(tmp_path / "suite.jsonl", tmp_path)
    assert not enough
    assert {text["text"] for text in texts} == {"eos_token = 1", "for key in keys:", "for key in keys:\n    use(it)"}
    assert all(text["secrets"] == [] for text in texts)
