"""What the comparison keeps in the cache folder is built once and never half."""

from __future__ import annotations

import pytest

pytest.importorskip("tomllib", reason="the table of suites needs Python 3.11")

from hosts import environments, suites

SUITE = suites.load()["openai"]


def build(folder, content):
    with environments._built_once(folder) as needed:
        if needed:
            folder.mkdir()
            (folder / "half").touch()
            (folder / "content").write_text(content)
            (folder / "half").unlink()
    return (folder / "content").read_text()


def test_a_complete_folder_is_not_built_again(tmp_path):
    assert build(tmp_path / "x", "first") == "first"
    assert build(tmp_path / "x", "second") == "first"


def test_a_build_that_failed_is_done_again_from_an_empty_folder(tmp_path):
    folder = tmp_path / "x"
    with pytest.raises(TypeError):
        build(folder, content=None)

    assert build(folder, "whole") == "whole"
    assert not (folder / "half").exists()


def test_a_folder_that_was_removed_is_built_again(tmp_path):
    build(tmp_path / "x", "first")
    (tmp_path / "x" / "content").unlink()
    (tmp_path / "x").rmdir()

    assert build(tmp_path / "x", "second") == "second"


def test_a_suite_leaves_out_only_the_constraints_that_it_names():
    ours = suites.CONSTRAINTS.read_text().splitlines()
    kept = environments._constraints(SUITE).splitlines()

    assert {line.partition("==")[0] for line in ours if line not in kept} == set(SUITE.unconstrained)
    assert f"openai=={SUITE.version}" in kept
