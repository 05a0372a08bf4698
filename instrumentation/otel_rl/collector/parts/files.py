"""The parts that a collector configuration is put together from: shipped files and generated text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.collector.errors import Refused
from otel_rl.core import packaged_data

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class ConfigurationPart:
    """One part of a configuration.

    Attributes:
        name: its origin as readers see it, a path below ``collector-config`` or what generated it.
        text: its YAML, with comments.
    """

    name: str
    text: str


def shipped(name: str) -> ConfigurationPart:
    """Return the shipped file with this path below ``collector-config``."""
    return ConfigurationPart(name, (folder() / name).read_text(encoding="utf-8"))


def folder() -> Path:
    """Return the folder of the shipped files.

    Raises:
        Refused: this installation lacks them.
    """
    try:
        return packaged_data.path("collector-config")
    except packaged_data.MissingDataError as error:
        raise Refused(str(error)) from None
