"""Versions of the distributions that a library comes in, or is instrumented together with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable


def of_installed_build(requirement: str, builds: Iterable[str]) -> str:
    """Return ``requirement`` under the name of the first of ``builds`` that is installed, else as it is."""
    name = Requirement(requirement).name
    for build in (name, *builds):
        try:
            version(build)
        except PackageNotFoundError:
            continue
        return requirement.replace(name, build, 1)
    return requirement


def unsupported(module: str, requirements: Iterable[str]) -> str:
    """Text that names the distribution of ``module`` where its installed version is out of range; else empty.

    A distribution is the one of a module whose top-level name is its own, with underscores for dashes.
    """
    top = module.partition(".")[0]
    for text in requirements:
        requirement = Requirement(text)
        if requirement.name.replace("-", "_") != top:
            continue
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            return ""
        if not requirement.specifier.contains(installed, prereleases=True):
            return f"supports {requirement}, installed is {requirement.name} {installed}"
    return ""
