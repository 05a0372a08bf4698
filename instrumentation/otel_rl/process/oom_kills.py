"""How many processes the kernel has killed in the cgroup of this process because memory ran out."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/")
_KEY = "oom_kill"


def counted(root: Path = ROOT) -> int | None:
    """Return the counter of this process' cgroup (version 2, else 1); None where it cannot be read."""
    for line in _lines(root / "proc/self/cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        kills = None
        if number == "0" and not controllers:
            kills = _value(root / "sys/fs/cgroup" / path.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            kills = _value(root / "sys/fs/cgroup/memory" / path.lstrip("/") / "memory.oom_control")
        if kills is not None:
            return kills
    return None


def _value(file: Path) -> int | None:
    pairs = (line.split() for line in _lines(file))
    return next((int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] == _KEY and pair[1].isdigit()), None)  # noqa: PLR2004


def _lines(file: Path) -> list[str]:
    """Return none of a file that cannot be read."""
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
