"""Writes the generated files, or says which of them are not what the sources give."""

from __future__ import annotations

from pathlib import Path

from dashboards.boards import BOARDS
from dashboards.lib import render, rules
from dashboards.lib.rules import STACK, Links
from dashboards.rules import RULE_FILES

GENERATED = Path(__file__).parent / "generated"


def artefacts(links: Links = STACK) -> dict[str, str]:
    """Path within ``generated/`` -> content, for every board and rule file."""
    boards = {f"grafana/{board.uid}.json": render.render(board) for board in BOARDS}
    return boards | {f"prometheus/{name}": rules.render(groups, links) for name, groups in RULE_FILES.items()}


def differences(folder: Path = GENERATED, links: Links = STACK) -> list[str]:
    """Return what differs between ``folder`` and the sources, one line per file."""
    wanted = artefacts(links)
    present = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    lines = [f"{name}: not generated from any source" for name in sorted(present - wanted.keys())]
    for name, content in sorted(wanted.items()):
        path = folder / name
        if not path.is_file():
            lines.append(f"{name}: missing")
        elif path.read_bytes() != content.encode():
            lines.append(f"{name}: out of date")
    return lines


def write(folder: Path = GENERATED, links: Links = STACK) -> None:
    """Bring ``folder`` up to date, and take away what no source gives."""
    wanted = artefacts(links)
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if str(path.relative_to(folder)) not in wanted:
            path.unlink()
    for name, content in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
