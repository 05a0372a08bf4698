"""Instrumentors, ours and others', are loaded lazily and each for itself."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from process_support import ONE_SPAN, Finished, Programs

if TYPE_CHECKING:
    from pathlib import Path

BASE = """
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
class Instrumentor(BaseInstrumentor):
    def instrumentation_dependencies(self): return {requires!r}
    def _uninstrument(self, **kwargs): pass
    def _instrument(self, **kwargs):
{body}
"""


class Installed:
    """Distributions that exist only for one test."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._site: Path = programs.directory / "site"

    def library(self, name: str, version: str = "1.0", text: str = "value = 1") -> None:
        """A library to be instrumented."""
        self._programs.write(f"site/{name}.py", text)
        self._metadata(name, version)

    def instrumentor(
        self, entry_point: str, module: str, body: str, requires: tuple[str, ...] = (), dist: str = ""
    ) -> None:
        """An instrumentor whose ``_instrument`` runs ``body``."""
        indented = "".join(f"        {line}\n" for line in body.splitlines())
        self._programs.write(f"site/{module}.py", BASE.format(body=indented, requires=requires))
        self._metadata(
            dist or f"dist-{module}", "1.0", f"[opentelemetry_instrumentor]\n{entry_point} = {module}:Instrumentor\n"
        )

    def _metadata(self, name: str, version: str, entry_points: str = "") -> None:
        folder = f"site/{name.replace('-', '_')}-{version}.dist-info"
        self._programs.write(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if entry_points:
            self._programs.write(f"{folder}/entry_points.txt", entry_points)

    def run(self, text: str, **environ: str) -> tuple[Finished, dict[str, Any]]:
        """Run ``text`` with all of them installed; returns what became of the instrumentors, too."""
        path = self._programs.directory / "status.json"
        environ = {"OTEL_RL_RAISE_INTERNAL_ERRORS": "", "OTEL_RL_QUIET": "1", **environ}
        done = self._programs.instrumented(text, PYTHONPATH=str(self._site), OTEL_RL_STATUS_FILE=str(path), **environ)
        return done, json.loads(path.read_text())


def test_known_target_is_instrumented_when_it_is_imported_and_not_before(programs: Programs) -> None:
    installed = Installed(programs)
    installed.library("flask")
    installed.instrumentor("flask", "flask_instr", "import flask; flask.value += 1; print('instrumented')")

    done, status = installed.run("print('start'); import flask; print(flask.value)")
    assert done.out == "start\ninstrumented\n2\n"
    assert status["flask"] == {"state": "active", "reason": ""}
    _, status = installed.run("pass")
    assert status["flask"]["state"] == "waiting"


def test_unknown_instrumentor_is_loaded_at_start(programs: Programs) -> None:
    installed = Installed(programs)
    installed.instrumentor("strange", "strange_instr", "print('instrumented')")

    done, status = installed.run("print('start')")
    assert done.out == "instrumented\nstart\n"
    assert status["strange"]["state"] == "active"


def test_one_that_raises_stops_no_other_and_no_import(programs: Programs) -> None:
    installed = Installed(programs)
    installed.library("flask")
    installed.instrumentor("a_broken", "broken_instr", "raise SystemExit('gone')")
    installed.instrumentor("flask", "flask_instr", "raise RuntimeError('no')")
    installed.instrumentor("z_good", "good_instr", "print('good')")

    done, status = installed.run("import flask; print(flask.value)")
    assert (done.code, done.out, done.err) == (0, "good\n1\n", "")
    assert status["a_broken"] == {"state": "failed", "reason": "SystemExit: gone"}
    assert status["flask"] == {"state": "failed", "reason": "RuntimeError: no"}
    assert status["z_good"]["state"] == "active"


def test_unsupported_version_is_skipped_with_one_line(programs: Programs) -> None:
    installed = Installed(programs)
    installed.library("flask", version="0.1")
    installed.instrumentor("flask", "flask_instr", "print('instrumented')", requires=("flask >= 2",))

    done, status = installed.run("import flask; print(flask.value)")
    assert (done.code, done.out) == (0, "1\n")
    (line,) = done.err.splitlines()
    assert "flask >= 2" in line.replace(">=2", ">= 2")
    assert "flask 0.1" in line
    assert status["flask"]["state"] == "skipped"


@pytest.mark.bad_input("version outside the range")
def test_our_own_instrumentor_checks_the_version_too(programs: Programs) -> None:
    installed = Installed(programs)
    installed.library("openai", version="0.1")

    done, status = installed.run("import openai; print(openai.value)", OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="openai")
    assert (done.code, done.out) == (0, "1\n")
    assert "openai 0.1" in done.err
    assert len(done.err.splitlines()) == 1
    assert status["otel_rl_openai"]["state"] == "skipped"


def test_disabled_ones_are_not_loaded(programs: Programs) -> None:
    installed = Installed(programs)
    installed.instrumentor("strange", "strange_instr", "print('instrumented')")

    for disabled in ("strange, other", "*"):
        done, status = installed.run("pass", OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=disabled)
        assert done.out == ""
        assert "disabled" in status["strange"]["reason"]


#: What ``LoggingInstrumentor`` of opentelemetry-instrumentation-logging does to the program's output.
LOGGING = """import logging
if kwargs.get("enable_log_auto_instrumentation", True):
    logging.getLogger().addHandler(logging.NullHandler())
print("loaded")
"""


def test_the_instrumentor_of_logging_is_loaded_only_where_the_user_asks_for_it(programs: Programs) -> None:
    installed = Installed(programs)
    installed.instrumentor("logging", "logging_instr", LOGGING)
    program = "import logging; logging.warning('of the program')"

    done, status = installed.run(program)
    assert (done.out, done.err) == ("", "WARNING:root:of the program\n")
    assert status["logging"]["state"] == "skipped"
    assert "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED=true" in status["logging"]["reason"]

    done, status = installed.run(program, OTEL_PYTHON_LOG_CORRELATION="true")
    assert (done.out, done.err) == ("loaded\n", "WARNING:root:of the program\n")
    assert status["logging"]["state"] == "active"

    done, status = installed.run(program, OTEL_PYTHON_LOG_AUTO_INSTRUMENTATION="true")
    assert (done.out, done.err) == ("loaded\n", "")


def test_of_two_owners_of_a_library_one_is_kept_and_the_other_reported(programs: Programs) -> None:
    installed = Installed(programs)
    installed.library("flask")
    installed.instrumentor("flask", "aaa_instr", "print('other')", dist="aaa-instrumentation")
    installed.instrumentor("flask", "official_instr", "print('official')", dist="opentelemetry-instrumentation-flask")

    done, status = installed.run("import flask")
    assert done.out == "official\n"
    assert "opentelemetry-instrumentation-flask" in status["flask (aaa-instrumentation)"]["reason"]


def test_library_whose_instrumentor_imports_it_again_and_that_fails_to_import_once(programs: Programs) -> None:
    installed = Installed(programs)
    installed.library(
        "flask", text="import os\nif os.environ.pop('FAIL_ONCE', None): raise ImportError('first time')\nvalue = 1"
    )
    installed.instrumentor("flask", "flask_instr", "import flask, sys; flask.value += 1")

    done, status = installed.run(
        "try:\n    import flask\nexcept ImportError as error:\n    print(error)\n"
        "import flask, inspect; source = inspect.getsource(flask)\n"
        "print(flask.value, type(flask.__loader__).__name__, 'value = 1' in source)",
        FAIL_ONCE="1",
    )
    assert done.out == "first time\n2 SourceFileLoader True\n"
    assert status["flask"]["state"] == "active"


def test_our_instrumentors_import_nothing_until_their_library_is_imported(programs: Programs) -> None:
    names = (
        "openai",
        "torch",
        "trl",
        "langchain_core",
        "wrapt",
        "grpc",
        "opentelemetry.instrumentation.auto_instrumentation",
    )
    text = ONE_SPAN + f"import sys; print([name for name in {names!r} if name in sys.modules])"

    assert programs.child(sys.executable, "-c", text, OTEL_RL_CHILDREN="all").out == "[]\n"
