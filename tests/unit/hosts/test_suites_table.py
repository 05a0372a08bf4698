"""The table of foreign suites holds what the runner needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("tomllib", reason="the table of suites needs Python 3.11")

from importlib.metadata import entry_points

import tomllib
from hosts import environments, suites

TABLE = suites.load()
OWN_ENVIRONMENTS = {
    row.get("distribution", name): row["latest"]
    for name, row in tomllib.loads((suites.ROOT / "tests" / "versions.toml").read_text()).items()
    if row.get("own_environment")
}


@pytest.fixture(params=TABLE.values(), ids=TABLE)
def suite(request):
    return request.param


def test_the_version_is_the_one_that_our_own_tests_install(suite):
    constrained = f"{suite.distribution}=={suite.version}" in suites.CONSTRAINTS.read_text().splitlines()

    assert constrained is not bool(suite.pinned)
    # A row of tests/versions.toml may be missing, its version may not differ.
    assert constrained or OWN_ENVIRONMENTS.get(suite.distribution, suite.version) == suite.version


def test_the_instrumentors_are_entry_points_of_ours(suite):
    ours = {each.name for each in entry_points(group="opentelemetry_instrumentor")}

    assert suite.instrumentors
    assert set(suite.instrumentors) <= ours


def test_every_left_out_and_every_known_test_has_a_reason(suite):
    assert all(suite.deselect.values())
    assert all(suite.known.values())


def test_every_requirement_has_one_version(suite):
    constraints = {line.partition("==")[0] for line in suites.CONSTRAINTS.read_text().splitlines()}
    for requirement in suite.requirements:
        name = re.match(r"[A-Za-z0-9_.-]+", requirement).group()
        assert "==" in requirement or name.lower() in constraints - set(suite.unconstrained), requirement


def test_tests_that_are_ours_are_beside_the_table(suite):
    if suite.source != "sdist":
        assert all((suites.TABLE.parent / suite.source / path).exists() for path in suite.select)


def test_the_cache_folder_is_the_one_of_the_makefile(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_RL_CACHE_DIR", str(tmp_path / "a cache"))

    assert environments.cache_folder() == Path(tmp_path, "a cache", "hosts")
