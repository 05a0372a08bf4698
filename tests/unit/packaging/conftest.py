"""A wheel built from this checkout, and a fresh environment that it is installed into."""

import subprocess

import pytest
from support import distribution


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    return distribution.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """The bin folder of an environment with the wheel and what it depends on, nothing else."""
    environment = tmp_path_factory.mktemp("installed")
    binaries = distribution.create_environment(environment)
    constraints = distribution.CHECKOUT / "tests" / "constraints" / "latest.txt"
    command = [distribution.find_uv(), "pip", "install", "--quiet", "--python", environment]
    subprocess.run([*command, "--constraint", constraints, wheel], check=True, timeout=300)
    return binaries
