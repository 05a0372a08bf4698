"""docs/identity.md shows the table of launchers as the code has it."""

from __future__ import annotations

from pathlib import Path

from otel_rl.instrumentors.torch_distributed import rendezvous
from otel_rl.pipeline import identity_gate
from otel_rl.process.launchers import LAUNCHERS, PLAIN, Launcher

PAGE = Path(__file__).resolve().parents[3] / "docs" / "identity.md"
_HEAD = "| launcher | known by | rank | local rank | world size | node rank | job | ranks |"
_KNOWN_BY = {
    "ray": "`default_worker.py` on the command line, or {}",
    "multiprocessing": "the command line of a worker",
    "none": "nothing else",
    "slurm": "{}, unless of the batch script or an interactive shell",
}


def _variables(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _row(launcher: Launcher) -> str:
    cells = (
        f"`{launcher.name}`",
        _KNOWN_BY.get(launcher.name, "{}").format(_variables(launcher.signs)),
        _variables(launcher.rank),
        _variables(launcher.local_rank),
        _variables(launcher.world_size),
        _variables(launcher.node_rank),
        _variables(launcher.job),
        "numbered" if launcher.numbers_the_launch else "of a group",
    )
    return f"| {' | '.join(cells)} |"


def table() -> str:
    """The table as it has to stand in the page."""
    return "\n".join((_HEAD, "|---|---|---|---|---|---|---|---|", *map(_row, (*LAUNCHERS, PLAIN))))


def test_the_table_of_launchers_is_that_of_the_code():
    text = PAGE.read_text(encoding="utf-8")
    shown = text.split("<!-- launchers -->")[1].split("<!-- /launchers -->")[0]

    assert shown.strip() == table()


def test_the_limits_are_those_of_the_code():
    text = PAGE.read_text(encoding="utf-8")

    assert f"`{rendezvous.KEY}`" in text
    assert f"limit of {rendezvous.TIME_LIMIT:g} s" in text
    assert f"| {identity_gate.MEETING_SECONDS:g} s |" in text
    assert f"| {identity_gate.HOLD_SECONDS:g} s |" in text
