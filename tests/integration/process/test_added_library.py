"""A library that is added the way CONTRIBUTING says: a folder and an entry point, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.recipes import files_of

if TYPE_CHECKING:
    from typing import Any

    from process_support import Programs

LIBRARY = """
class Client:
    def ask(self, question):
        if not question:
            raise ValueError("empty")
        return question.upper()
"""
CALLS = """
import oracle.client
client = oracle.client.Client()
print(client.ask("why"))
try:
    client.ask("")
except ValueError as error:
    print(error)
"""


class Oracle:
    """The library ``oracle`` and its instrumentor, as installed distributions of one test."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        programs.write("site/oracle/__init__.py", "")
        programs.write("site/oracle/client.py", LIBRARY)
        self._distribution("oracle", "1.2")
        for path, text in files_of("Add an instrumented library", "instrumentors/oracle").items():
            programs.write(f"site/oracle_instrumentor/{path}", text)
        group = "[opentelemetry_instrumentor]\notel_rl_oracle = oracle_instrumentor:OracleInstrumentor\n"
        self._distribution("oracle-instrumentor", "1.0", group)

    def _distribution(self, name: str, version: str, entry_points: str = "") -> None:
        folder = f"site/{name.replace('-', '_')}-{version}.dist-info"
        self._programs.write(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        self._programs.write(f"{folder}/entry_points.txt", entry_points)

    def library(self, text: str) -> None:
        """Another version of the library."""
        self._programs.write("site/oracle/client.py", text)

    def run(self, text: str) -> tuple[str, dict[str, Any]]:
        """Output of the instrumented program, and the states of the instrumentors."""
        status = self._programs.directory / "status.json"
        site = str(self._programs.directory / "site")
        done = self._programs.instrumented(text, PYTHONPATH=site, OTEL_RL_STATUS_FILE=str(status), OTEL_RL_QUIET="1")
        assert (done.code, done.err) == (0, "")
        return done.out, json.loads(status.read_text())


def test_the_recipe_is_a_library_that_is_recorded(programs: Programs) -> None:
    output, status = Oracle(programs).run(CALLS)
    assert output == "WHY\nempty\n"
    assert status["otel_rl_oracle"] == {"state": "active", "reason": ""}
    spans = [span for span in programs.store.spans() if span["name"] == "execute_tool ask"]
    assert [span.get("status", {}).get("code", 0) for span in spans] == [0, 2]


def test_it_costs_nothing_until_the_library_is_imported(programs: Programs) -> None:
    output, status = Oracle(programs).run(
        "import sys; print('oracle' in sys.modules, 'oracle_instrumentor.patch' in sys.modules)"
    )
    assert output == "False False\n"
    assert status["otel_rl_oracle"]["state"] == "waiting"


def test_a_library_that_lacks_the_name_is_degraded_and_runs(programs: Programs) -> None:
    oracle = Oracle(programs)
    oracle.library("class Client:\n    def tell(self): return 'told'\n")
    output, status = oracle.run("import oracle.client; print(oracle.client.Client().tell())")
    assert output == "told\n"
    assert status["otel_rl_oracle"]["state"] == "degraded"
    assert "Client.ask" in status["otel_rl_oracle"]["reason"]
