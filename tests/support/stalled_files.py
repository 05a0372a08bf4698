"""A file system that stops answering: builds ``stalled_files.c`` and gives the environment that preloads it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


@dataclass(frozen=True)
class Stall:
    """One arrangement: ``library`` stalls calls below ``below`` until ``release`` exists."""

    library: Path
    below: Path
    reached: Path
    release: Path

    def environ(self, *calls: str) -> dict[str, str]:
        """Variables for a process whose ``calls`` are to stall."""
        return {
            "LD_PRELOAD": str(self.library),
            "STALL_BELOW": str(self.below),
            "STALL_CALLS": ",".join(calls),
            "STALL_REACHED": str(self.reached),
            "STALL_RELEASE": str(self.release),
        }


def compiler() -> str | None:
    """The C compiler, where there is one."""
    return shutil.which("gcc") or shutil.which("cc")


def build(directory: Path) -> Path:
    """Compile the library into ``directory``."""
    library = directory / "stalled_files.so"
    command = [compiler() or "cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return library
