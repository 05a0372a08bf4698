"""Which MCP servers over stdio the last line names: those in Python that do not record."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from otel_rl.instrumentors.mcp import connections
from otel_rl.process.child_processes import CHILDREN, MARKER

INHERITED = {MARKER: "1|program||"}


@pytest.mark.parametrize(
    ("command", "environ", "number"),
    [
        ("python", None, 1),
        ("/usr/bin/python3.12", {}, 1),
        ("python", INHERITED, 1),
        ("python", {**INHERITED, CHILDREN: "launchers"}, 1),
        # The library passes on few variables itself: not the one by which a child knows its parent.
        ("python", {CHILDREN: "all"}, 1),
        ("python", {**INHERITED, CHILDREN: " All "}, 0),
        ("node", None, 0),
    ],
)
def test_a_server_in_python_that_is_not_recorded_is_counted(
    monkeypatch: pytest.MonkeyPatch, command: str, environ: dict[str, str] | None, number: int
) -> None:
    monkeypatch.setattr(connections, "unrecorded_servers", 0)
    connections._with_process(SimpleNamespace(command=command, env=environ))
    assert connections.unrecorded_servers == number
