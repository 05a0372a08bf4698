"""Unusual surroundings: the program does what it does without us, and one line says what is not recorded.

Each program runs plain and instrumented. Exit status, output and the lines on stderr that are not ours are equal.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from process_support import INSTRUMENT, Finished, Programs

#: Records through our API and through OpenTelemetry's.
WORK = """
import otel_rl
from opentelemetry import metrics, trace
def work():
    with otel_rl.step(0), trace.get_tracer("program").start_as_current_span("work"):
        metrics.get_meter("program").create_counter("made").add(1)
    print("worked", flush=True)
work()
"""
AUDIT_HOOK = """
import sys
def hook(event, arguments):
    if event in {events}:
        raise PermissionError(event)
sys.addaudithook(hook)
"""
SUB_INTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
one = interpreters.create()
getattr(interpreters, "run_string", None)(one, "print('in another interpreter', flush=True)")
interpreters.destroy(one)
"""
CLEARED_MODULES = """
import sys
for name in list(sys.modules):
    if name.startswith(("opentelemetry", "otel_rl", "logging", "json", "threading")):
        del sys.modules[name]
import logging
logging.warning("of the program")
"""


@dataclass(frozen=True)
class Edge:
    """A program and the surroundings it runs in."""

    program: str
    #: As a shell writes it.
    shell: str = "{command}"
    #: Part of the one line of ours; None where nothing is lost.
    said: str | None = None
    root: bool = False


HOLD_DESCRIPTORS = """
import os
held = []
try:
    while True: held.append(os.open(os.devnull, os.O_RDONLY))
except OSError as error: print(error.errno)
"""
EDGES = {
    "deleted working directory": Edge(
        WORK, "mkdir gone && cd gone && rmdir ../gone && {command} 2>&1 >../out | cat >&2; cat ../out", said=""
    ),
    "32 descriptors": Edge(WORK, "ulimit -n 32; {command}"),
    "no descriptor left": Edge(WORK + HOLD_DESCRIPTORS, "ulimit -n 32; {command}", said="Too many open files"),
    "dropped privileges": Edge(
        WORK + "import os\nos.setgid(65534); os.setuid(65534)\nwork()", said="ermission denied", root=True
    ),
    "chroot": Edge(WORK + "import os\nos.mkdir('root'); os.chroot('root'); os.chdir('/')\nwork()", said="", root=True),
    "audit hook on files": Edge(WORK + AUDIT_HOOK.format(events="('open', 'os.mkdir')") + "work()", said=""),
    "audit hook on imports": Edge(WORK + AUDIT_HOOK.format(events="('import',)") + "work()", said=""),
    "sub-interpreter": Edge(WORK + SUB_INTERPRETER),
    "sub-interpreter before the first record": Edge(SUB_INTERPRETER + WORK),
    "cleared sys.modules": Edge(WORK + CLEARED_MODULES + "work()", said=""),
    "closed descriptors": Edge(WORK + "import os\nos.closerange(3, 256)\nwork()"),
    "standard streams that are closed": Edge(WORK, "{command} <&- >out 2>&-; echo $?; cat out"),
    "default names of threads": Edge(
        WORK
        + "import threading, time\ntime.sleep(0.5)\nprint(threading.Thread().name, threading.Thread().name)\nwork()"
    ),
    "no threads any more": Edge(WORK + "import _thread, threading\nthreading.Thread.start = None\nwork()"),
}


def ours(done: Finished) -> list[str]:
    return [line for line in done.err.splitlines() if line.startswith("otel-rl")]


def run(programs: Programs, edge: Edge, *prefix: str | Path, **environ: str) -> Finished:
    for left in ("root", "gone", "out"):
        shutil.rmtree(programs.directory / left, ignore_errors=True)
    program = programs.write("program.py", edge.program)
    assert not {"PYTHONUNBUFFERED", "PYTHONPATH"} & programs.environ.keys()
    programs.environ.pop("OTEL_RL_RAISE_INTERNAL_ERRORS", None)
    if edge.shell == "{command}":
        return programs.run(*prefix, sys.executable, program, **environ)
    command = shlex.join(map(str, [*prefix, sys.executable, program]))
    return programs.run("bash", "-c", edge.shell.format(command=command), **environ)


@pytest.mark.parametrize("name", EDGES)
def test_program_does_what_it_does_without_us_and_one_line_says_what_is_lost(programs: Programs, name: str) -> None:
    edge = EDGES[name]
    if edge.root and os.geteuid() != 0:
        pytest.skip("needs root")

    plain, instrumented = run(programs, edge), run(programs, edge, INSTRUMENT, OTEL_RL_QUIET="1")

    assert (instrumented.code, instrumented.out) == (plain.code, plain.out)
    # In an environment whose path has a blank, installers start console scripts by ``sh``, which complains first.
    others = [line for line in instrumented.err.splitlines() if not line.startswith(("otel-rl", "sh: 0: getcwd()"))]
    assert others == plain.err.splitlines()
    assert "worked" in plain.out
    assert len(ours(instrumented)) == (edge.said is not None), instrumented.err
    assert "internal error" not in instrumented.err
    assert (edge.said or "") in instrumented.err


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("OTEL_PROPAGATORS", "rubbish", "Propagator rubbish not found"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "rubbish", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-é%ZZ", "is not a number"),
        ("OTEL_TRACES_EXPORTER", "rubbish", "is not an installed exporter"),
        ("OTEL_METRICS_EXEMPLAR_FILTER", "rubbish", ""),
        ("OTEL_RL_EXIT_TIMEOUT", "-1", "is not valid"),
        ("OTEL_RL_DATA_MAX_BYTES", "many", "is not valid"),
        ("OTEL_RL_DATA_DIR", "/proc/version", "cannot write to"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "::::", "could not be delivered"),
        ("OTEL_RESOURCE_ATTRIBUTES", "=,==%ZZ", None),
        ("OTEL_CONFIG_FILE", "missing.yaml", "cannot be used"),
    ],
)
def test_unparsable_variable_costs_one_line(programs: Programs, variable: str, value: str, said: str | None) -> None:
    # Behind the launcher, which is upstream's and reads some of them itself.
    instrumented = run(programs, Edge(WORK), INSTRUMENT, "env", f"{variable}={value}", OTEL_RL_QUIET="1")

    assert (instrumented.code, instrumented.out) == (0, "worked\n")
    assert len(instrumented.err.splitlines()) <= 1, instrumented.err
    if said is not None:
        assert said in instrumented.err
    assert "internal error" not in instrumented.err


def test_second_copy_of_us_on_the_path_changes_nothing_for_the_program(programs: Programs) -> None:
    # With its bytecode: to compile it takes far longer than the programs.
    package = Path(__file__).parents[3] / "instrumentation" / "otel_rl"
    shutil.copytree(package, programs.directory / "copy" / "otel_rl")
    edge = Edge("import sys; sys.path.insert(0, 'copy')\n" + WORK)
    first = run(programs, edge, INSTRUMENT, OTEL_RL_QUIET="1")
    second = run(programs, Edge(WORK), INSTRUMENT, OTEL_RL_QUIET="1", PYTHONPATH=str(programs.directory / "copy"))

    for done in (first, second):
        assert (done.code, done.out, done.err) == (0, "worked\n", "")
    assert programs.store.span_names().count("work") == 2
