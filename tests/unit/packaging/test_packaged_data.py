"""The resolver finds the data of a checkout, and says what to do where there is none."""

from pathlib import Path
from typing import get_args

import pytest

from otel_rl.core import packaged_data

CHECKOUT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", get_args(packaged_data.Name))
def test_an_editable_install_uses_the_folders_of_the_checkout(name):
    assert packaged_data.path(name) == CHECKOUT / name


def test_data_inside_the_package_comes_first(tmp_path):
    package = tmp_path / "instrumentation" / "otel_rl"
    inside = package / "_data" / "compose"
    inside.mkdir(parents=True)
    (tmp_path / "compose").mkdir()
    (tmp_path / "pyproject.toml").touch()

    assert packaged_data.path("compose", package) == inside


def test_a_folder_of_the_same_name_beside_a_broken_install_is_not_taken(tmp_path):
    package = tmp_path / "site-packages" / "otel_rl"
    package.mkdir(parents=True)
    (tmp_path / "compose").mkdir()

    with pytest.raises(packaged_data.MissingDataError, match=r"compose files are not in this installation .*: install"):
        packaged_data.path("compose", package)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"no packaged data named 'boards'; there are collector-config, compose"):
        packaged_data.path("boards")
