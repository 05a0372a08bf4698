"""Problems that the checker reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault of the registry: in which file, at which name, and what to do about it."""

    path: Path
    name: str
    message: str

    def __str__(self) -> str:
        return f"{self.path.name}: {self.name}: {self.message}"
