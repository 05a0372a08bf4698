"""No figure of the house becomes worse unnoticed, and one that became better is written down."""

from __future__ import annotations

import pytest

pytest.importorskip("tomllib")  # Python 3.11

from instrumentation import house_figures

WHAT_TO_DO = "Make what is worse better, or edit tests/house.toml and give the reason in the commit's body."
READER = "instrumentation/otel_rl/store/reader.py"
WRITER = "instrumentation/otel_rl/store/writer.py"
FILES = {
    READER: '''\
"""A module."""

# A comment is no code.

class Reader:
    """A class."""

    def read(self):
        """Return a text of three lines, each of which is code."""
        return """

        end"""

    def close(self): ...

    def _find(self): ...
''',
    "instrumentation/otel_rl/distro/table.py": (
        '"""Generated; run `make generate`."""\nclass Reader: ...\nNAME = "OTEL_RL_OF_THE_PACK"\n'
    ),
    "collector-config/agent.yaml": "endpoint: ${env:OTEL_RL_ENDPOINT}\n",
    "README.md": "Three words here\n",
    "docs/start.md": "OTEL_RL_ENDPOINT is one variable\n",
    "docs/reference/metrics.md": "Generated pages are not counted\n",
}
#: The figures of these files, counted by eye.
FIGURES = {
    "code_lines": 7,
    "classes": 1,
    "undocumented_functions": 1,
    "generated_modules": 1,
    "own_variables": 2,
    "readme_words": 3,
    "docs_words": 4,
}


def held(tables="[long_modules]\n[shared_class_names]\n", **other):
    """The text of a tests/house.toml: these figures but for `other`."""
    return "".join(f"{name} = {value}\n" for name, value in (FIGURES | other).items()) + tables


@pytest.fixture
def checkout(tmp_path):
    for name, text in FILES.items():
        write(tmp_path / name, text)
    write(tmp_path / "tests/house.toml", held())
    assert house_figures.main([], tmp_path) == 0
    return tmp_path


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_figures_of_the_repository_are_those_that_are_written_down(capsys):
    status = house_figures.main(["--check"])
    assert status == 0, capsys.readouterr().err


def test_code_by_hand_names_and_words_are_counted(checkout):
    counted = {name: value for (name, _), value in house_figures.count(checkout).figures.items()}
    assert counted == FIGURES
    assert house_figures.main(["--check"], checkout) == 0


WORSE = {
    "code": (READER, "LIMIT = 5\n", "code_lines is worse: 7 before, 8 now"),
    "class": (WRITER, "class Writer: ...\n", "classes is worse: 1 before, 2 now"),
    "function without a docstring": (
        WRITER,
        "def write(): ...\n",
        "undocumented_functions is worse: 1 before, 2 now",
        "2 of them: store/reader.py:14 close, store/writer.py:1 write\n",
    ),
    "module that calls itself generated": (
        WRITER,
        '"""Run `make generate`."""\nclass Writer: ...\n',
        "generated_modules is worse: 1 before, 2 now",
        "distro/table.py, store/writer.py\n",
    ),
    "variable": ("docs/reference/metrics.md", "OTEL_RL_OTHER\n", "own_variables is worse: 2 before, 3 now"),
    "word of the README": ("README.md", "more\n", "readme_words is worse: 3 before, 4 now"),
    "word of the docs": ("docs/new/page.md", "more\n", "docs_words is worse: 4 before, 5 now"),
    "long module": (WRITER, "#\n" * 401, "long_modules, store/writer.py, is worse: not listed before, 401 now"),
    "class name": (
        WRITER,
        "class Reader: ...\n",
        "shared_class_names, Reader, is worse: not listed before, 2 now",
        "2 of them: store/reader.py, store/writer.py\n",
    ),
}


@pytest.mark.parametrize(
    ("file", "added", "lines"), [(one, two, rest) for one, two, *rest in WORSE.values()], ids=WORSE
)
def test_a_worse_figure_fails_with_its_values_and_names_and_is_never_written(checkout, capsys, file, added, lines):
    before = (checkout / "tests/house.toml").read_text()
    write(checkout / file, FILES.get(file, "") + added)
    for arguments in (["--check"], []):
        assert house_figures.main(arguments, checkout) == 1
        message = capsys.readouterr().err
        assert [line for line in (*lines, WHAT_TO_DO) if line not in message] == []
        assert (checkout / "tests/house.toml").read_text() == before


def test_a_listed_long_module_may_become_no_longer(checkout, capsys):
    write(checkout / WRITER, "#\n" * 406)
    write(checkout / "tests/house.toml", held('[long_modules]\n"store/writer.py" = 405\n[shared_class_names]\n'))
    assert house_figures.main([], checkout) == 1
    assert "long_modules, store/writer.py, is worse: 405 before, 406 now" in capsys.readouterr().err
    assert '"store/writer.py" = 405\n' in (checkout / "tests/house.toml").read_text()


def test_a_module_of_just_the_length_that_any_may_have_is_not_long(checkout):
    write(checkout / WRITER, "#\n" * 400)
    assert house_figures.main(["--check"], checkout) == 0


def test_of_many_undocumented_functions_the_number_is_given(checkout, capsys):
    write(checkout / WRITER, "".join(f"def write_{number}(): ...\n" for number in range(30)))
    assert house_figures.main(["--check"], checkout) == 1
    assert "; 31 of them\n" in capsys.readouterr().err


BETTER = {
    **{
        name: ({name: value + 1}, f"{name} is better: {value + 1} before, {value} now")
        for name, value in FIGURES.items()
    },
    "long module": (
        {"tables": '[long_modules]\n"store/reader.py" = 401\n[shared_class_names]\n'},
        "long_modules, store/reader.py, is better: 401 before, not listed now",
    ),
    "class name": (
        {"tables": "[long_modules]\n[shared_class_names]\nReader = 2\n"},
        "shared_class_names, Reader, is better: 2 before, not listed now",
    ),
}


@pytest.mark.parametrize(("before", "line"), BETTER.values(), ids=BETTER)
def test_a_better_figure_fails_until_it_is_generated(checkout, capsys, before, line):
    house = checkout / "tests/house.toml"
    current = house.read_text()
    write(house, held(**before))
    assert house_figures.main(["--check"], checkout) == 1
    message = capsys.readouterr().err
    assert line in message
    assert "run `make generate` and commit the result" in message
    assert WHAT_TO_DO not in message
    assert house_figures.main([], checkout) == 0
    assert house.read_text() == current


def test_what_is_better_is_written_beside_what_is_worse(checkout, capsys):
    write(checkout / "tests/house.toml", held(readme_words=2, docs_words=9))
    assert house_figures.main([], checkout) == 1
    assert "docs_words" not in capsys.readouterr().err
    text = (checkout / "tests/house.toml").read_text()
    assert "\nreadme_words = 2 " in text
    assert "\ndocs_words = 4 " in text


DAMAGED = {
    "merge conflict": ("<<<<<<< HEAD\n" + held(), "is damaged: Invalid statement (at line 1, column 1)"),
    "no figure": (held().replace("classes = 1\n", ""), "lacks classes"),
    "no table": (held("[long_modules]\n"), "lacks shared_class_names"),
    "other figure": (held(doors=3), "has doors, which nothing counts"),
    "a word": (held(classes="'many'"), "classes is 'many', no whole number"),
    "a fraction": (held(docs_words=0.5), "docs_words is 0.5, no whole number"),
    "a word in a table": (
        held('[long_modules]\n"a.py" = "long"\n[shared_class_names]\n'),
        "long_modules.a.py is 'long', no whole number",
    ),
    "a number for a table": (held("", long_modules=1, shared_class_names=1), "long_modules is no table"),
}


@pytest.mark.parametrize(("text", "message"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_an_error_that_says_what_is_wrong_and_is_left_as_it_is(checkout, capsys, text, message):
    write(checkout / "tests/house.toml", text)
    for arguments in (["--check"], []):
        assert house_figures.main(arguments, checkout) == 1
        error = capsys.readouterr().err
        assert error.startswith("tests/house.toml")
        assert message in error
    assert (checkout / "tests/house.toml").read_text() == text


def test_a_missing_file_is_an_error_that_says_how_to_put_it_back(checkout, capsys):
    (checkout / "tests/house.toml").unlink()
    for arguments in (["--check"], []):
        assert house_figures.main(arguments, checkout) == 1
        assert "is missing; put it back: git checkout HEAD -- tests/house.toml" in capsys.readouterr().err
    assert not (checkout / "tests/house.toml").exists()
