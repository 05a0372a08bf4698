"""Locates the files that ship with otel-rl: collector configuration, builder, boards and rules, compose stack.

They live in folders of their own at the top of the repository. A wheel carries copies of them inside the package; an
editable install and a checkout use them where they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

Name = Literal["collector-config", "compose", "dashboards", "otelcol-builder"]

_PACKAGE = Path(__file__).parents[1]


class MissingDataError(RuntimeError):
    """This installation lacks a folder that it should have; the message says what to do."""


def path(name: Name, package: Path = _PACKAGE) -> Path:
    """Return the folder with this part of the packaged data.

    Args:
        name: ``collector-config`` (configuration files of the collector), ``otelcol-builder`` (what builds it),
            ``dashboards`` (``generated/`` boards and rules, ``runbooks/``) or ``compose`` (the stack and the
            configuration of its backends).
        package: the folder of the installed package.

    Raises:
        ValueError: there is no such part.
        MissingDataError: the installation lacks it.
    """
    if name not in get_args(Name):
        raise ValueError(f"no packaged data named {name!r}; there are {', '.join(get_args(Name))}")
    checkout = package.parents[1]
    for folder, belongs in (
        (package / "_data" / name, True),
        (checkout / name, (checkout / "pyproject.toml").is_file()),
    ):
        if belongs and folder.is_dir():
            return folder
    raise MissingDataError(
        f"otel-rl's {name} files are not in this installation ({package}): "
        "install the wheel again (pip install --force-reinstall --no-deps otel-rl) or use a whole checkout"
    )
