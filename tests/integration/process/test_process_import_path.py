"""The program imports the modules that it imports without us, and sees one entry of ours, at the end of its path."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from process_support import BOOTSTRAP, INSTRUMENT, ONE_SPAN, TORCHRUN, Collector, Finished, Programs

from otel_rl.distro import import_path

SHOW = f"""
import os, sys
print([path for path in sys.path if path != {str(BOOTSTRAP)!r}])
print(os.environ.get('PYTHONPATH', '').removesuffix(os.pathsep + {str(BOOTSTRAP)!r}).removesuffix({str(BOOTSTRAP)!r}))
for name in ('logging', 'socket', 'colorsys', 'types', 'random', 'queue'):
    print(name, getattr(__import__(name), '__file__', None))
"""


def pair(programs: Programs, *command: str | Path, **environ: str) -> tuple[Finished, Finished]:
    plain = programs.run(*command, **environ)
    return plain, programs.run(INSTRUMENT, *command, **environ)


def own_modules(programs: Programs, *names: str, folder: str = ".") -> None:
    """Modules of the program with names of the standard library."""
    for name in names:
        programs.write(f"{folder}/{name}.py", "")


FORMS = {
    "script": ["program.py"],
    "script elsewhere": ["elsewhere/program.py"],
    "module": ["-m", "program"],
    "code": ["-c", SHOW],
    "safe path": ["-P", "elsewhere/program.py"],
    "isolated": ["-I", "elsewhere/program.py"],
}


@pytest.mark.parametrize("form", FORMS)
def test_modules_in_the_working_directory_come_first_exactly_where_they_do_without_us(
    programs: Programs, form: str
) -> None:
    if form == "safe path" and sys.version_info < (3, 11):
        pytest.skip("-P came with Python 3.11")
    # With -m the interpreter itself needs types and fails without us.
    own_modules(programs, "logging", "socket", "colorsys", "queue", *(() if form == "module" else ("types",)))
    for folder in (".", "elsewhere"):
        programs.write(f"{folder}/program.py", SHOW)

    plain, instrumented = pair(programs, sys.executable, *FORMS[form])

    assert plain.code == 0, plain.err
    assert (instrumented.code, instrumented.out, instrumented.err) == (plain.code, plain.out, plain.err)


@pytest.mark.parametrize("path", ["{here}", "{here}/own", "own:", ":own", "{bootstrap}:{here}"])
def test_users_python_path_stays_as_it_is(programs: Programs, path: str) -> None:
    # None that the launcher needs: it is a Python program too, and reads the same variable.
    own_modules(programs, "colorsys", "queue")
    own_modules(programs, "colorsys", folder="own")
    programs.write("elsewhere/program.py", SHOW)
    path = path.format(here=programs.directory, bootstrap=BOOTSTRAP)

    plain = programs.run(sys.executable, "elsewhere/program.py", PYTHONPATH=path.removeprefix(f"{BOOTSTRAP}:"))
    instrumented = programs.run(INSTRUMENT, sys.executable, "elsewhere/program.py", PYTHONPATH=path)

    assert plain.code == 0, plain.err
    assert (instrumented.code, instrumented.out, instrumented.err) == (0, plain.out, "")


@pytest.mark.parametrize("endpoint", [False, True], ids=["files", "collector"])
def test_program_with_a_module_named_like_one_that_we_need_is_recorded(
    programs: Programs, collector: Collector, endpoint: bool
) -> None:
    own_modules(programs, "logging", "queue", "json", "random", "socket", "gzip")
    environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"} if endpoint else {}
    if endpoint:
        environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{collector.port}"
    done = programs.instrumented(
        "import json, logging\nprint(json.__file__, logging.__file__)\nimport otel_rl\nwith otel_rl.step(1): pass\n",
        **environ,
    )

    assert (done.code, done.out) == (0, f"{programs.directory}/json.py {programs.directory}/logging.py\n")
    assert "otel-rl: recorded 3 spans" in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(("name", "is_up"), [("requests", True), ("idna", True), ("requests", False)])
def test_module_of_the_program_named_like_one_of_the_exporter_is_run_by_the_program_only(
    programs: Programs, collector: Collector, name: str, is_up: bool
) -> None:
    programs.write(f"{name}.py", "print(__name__, 'of the program')\n")
    endpoint = f"http://127.0.0.1:{collector.port if is_up else 1}"
    environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    program = "import time\nimport otel_rl\nwith otel_rl.step(1): pass\ntime.sleep(1)\n"

    alone = programs.instrumented(program, **environ)
    imported = programs.instrumented(f"import {name}\n{program}", **environ)

    assert (alone.code, alone.out) == (0, "")
    assert (imported.code, imported.out) == (0, f"{name} of the program\n")
    for done in (alone, imported):
        assert ("otel-rl: recorded 3 spans" if is_up else "(Connection refused)") in done.err


def test_of_a_folder_with_many_entries_only_those_named_like_a_module_of_ours_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        (tmp_path / f"sample_{number}").mkdir()
    (tmp_path / "queue").mkdir()
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").touch()
    (tmp_path / "random.py").touch()
    looked_at = []
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: looked_at.append(path) or exists(path))

    found = import_path._modules_in(
        {str(tmp_path): [entry.name for entry in tmp_path.iterdir()]}, {"json", "queue", "random", "socket"}
    )

    assert found == {"json", "random"}
    assert len(looked_at) == 2


def test_a_module_that_we_need_later_is_ours_for_us_and_the_programs_for_the_program(programs: Programs) -> None:
    own_modules(programs, "statistics")
    show = (
        "import statistics; from otel_rl.ranks.watchdog import step_times; print(step_times.median([1]), statistics)\n"
    )
    programs.write("program.py", show)

    done = programs.run(INSTRUMENT, sys.executable, "program.py")

    assert done.code == 0, done.err
    assert done.out == f"1 <module 'statistics' from '{programs.directory / 'statistics.py'}'>\n"


def test_children_have_the_path_that_they_have_without_us(programs: Programs) -> None:
    own_modules(programs, "logging", "colorsys", "queue")
    program = (
        f"SHOW = {SHOW!r}\n"
        "import multiprocessing, subprocess, sys\n"
        "def show(): exec(SHOW)\n"
        "if __name__ == '__main__':\n"
        "    for form in (['-c', SHOW], ['show.py'], ['-m', 'show']):\n"
        "        print(subprocess.run([sys.executable, *form], capture_output=True, text=True), flush=True)\n"
        "    for method in ('spawn', 'forkserver', 'fork'):\n"
        "        process = multiprocessing.get_context(method).Process(target=show)\n"
        "        process.start(); process.join()\n"
    )
    programs.write("elsewhere/program.py", program)
    programs.write("show.py", SHOW)

    plain, instrumented = pair(programs, sys.executable, "elsewhere/program.py", OTEL_RL_QUIET="1")

    assert plain.code == 0, plain.err
    assert (instrumented.code, instrumented.out, instrumented.err) == (0, plain.out, "")


def test_ranks_of_torchrun_have_the_path_that_they_have_without_us(programs: Programs) -> None:
    own_modules(programs, "colorsys", "profile")
    programs.write("elsewhere/program.py", SHOW)

    torchrun = programs.write("bin/torchrun", TORCHRUN)
    plain, instrumented = pair(programs, sys.executable, torchrun, "elsewhere/program.py")

    assert plain.code == 0, plain.err
    assert (instrumented.code, instrumented.out) == (0, plain.out)


def test_sitecustomize_of_the_user_on_the_path_does_not_keep_us_from_recording(programs: Programs) -> None:
    programs.write("own/sitecustomize.py", "print('own sitecustomize')")
    own, other = programs.directory / "own", programs.directory / "other"
    done = programs.instrumented(
        ONE_SPAN + "import os; print(os.environ['PYTHONPATH'])", PYTHONPATH=f"{other}:{own}:{other}"
    )

    assert done.out == f"own sitecustomize\n{other}:{BOOTSTRAP}:{own}:{other}\n"
    assert programs.store.span_names() == ["work"]


def test_interpreter_without_our_packages_runs_the_program_and_one_line_says_so(programs: Programs) -> None:
    base = Path(sys.base_prefix, "bin", "python3")
    if not base.exists() or base.resolve() == Path(sys.executable):
        pytest.skip("needs an interpreter without our packages")
    done = programs.run(INSTRUMENT, base, "-c", "print('ran')")

    assert (done.code, done.out) == (0, "ran\n")
    (line,) = done.err.splitlines()
    assert line.startswith("otel-rl: nothing is recorded")
    assert str(base) in line
