"""The program gets its arguments from ``opentelemetry-instrument`` as it gets them from the shell."""

from __future__ import annotations

import json
import re
import shlex
import sys

import pytest
from process_support import INSTRUMENT, Finished, Programs

SHOW = "import json, os, sys; print(json.dumps([sys.argv, os.environ.get('OTEL_SERVICE_NAME')]))"


def shown(done: Finished) -> tuple[list[str], str | None]:
    assert done.code == 0, done.err
    arguments, service = json.loads(done.out)
    return arguments, service


def test_every_prefix_of_every_option_of_the_command_is_the_programs_own_after_the_program(programs: Programs) -> None:
    help_page = programs.run(INSTRUMENT, "--help").out
    options = sorted(set(re.findall(r"--[a-z]\w+", help_page)))
    assert len(options) > 50
    prefixes = sorted({option[:length] for option in options for length in range(3, len(option) + 1)})
    arguments = [*prefixes, *(f"{prefix}=x" for prefix in prefixes), "--config", "x", "-h", "-c"]
    program = programs.write("program.py", SHOW)

    plain = programs.run(sys.executable, program, *arguments)

    assert shown(programs.run(INSTRUMENT, sys.executable, program, *arguments)) == shown(plain)
    assert shown(plain)[0] == [str(program), *arguments]


@pytest.mark.parametrize(
    "before",
    [
        (),
        ("--service_name", "mine"),
        ("--service_name=mine",),
        ("--service_n", "mine", "--metrics_exporter=none"),
        ("--",),
    ],
)
@pytest.mark.parametrize("arguments", [(), ("--", "--config", "--"), ("--log", "-x", "")])
def test_options_before_the_program_keep_working(
    programs: Programs, before: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    program = programs.write("program.py", SHOW)

    got, service = shown(programs.run(INSTRUMENT, *before, sys.executable, program, *arguments))

    assert got == [str(program), *arguments]
    assert service == ("mine" if any("service" in argument for argument in before) else None)


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "program", "--config", "x"],
        ["-c", SHOW, "--config", "x"],
        ["-W", "error", "-X", "dev", "-u", "program.py", "--config", "x"],
    ],
    ids=["module", "code", "options of the interpreter"],
)
def test_other_forms_of_the_interpreters_command_line(programs: Programs, command: list[str]) -> None:
    programs.write("program.py", SHOW)

    assert shown(programs.run(INSTRUMENT, sys.executable, *command)) == shown(programs.run(sys.executable, *command))


def test_arguments_pass_through_a_shell_too(programs: Programs) -> None:
    programs.write("program.py", SHOW)
    shell = ["bash", "-c", f'{shlex.quote(sys.executable)} program.py "$@"', "bash", "--config", "a b"]

    assert shown(programs.run(INSTRUMENT, *shell)) == shown(programs.run(*shell))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "the following arguments are required: command"),
        (("--service_name", "x"), 2, "the following arguments are required: command"),
        (("--service_name",), 2, "expected one argument"),
        (("--help",), 0, "usage: opentelemetry-instrument"),
        (("-h", "python", "--config", "x"), 0, "usage: opentelemetry-instrument"),
        (("--version",), 0, "opentelemetry-instrument "),
        (("--service_nam", "x", "--s", "y", "python"), 2, "ambiguous option: --s"),
    ],
)
def test_command_without_a_program_says_what_it_said_before(
    programs: Programs, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = programs.run(INSTRUMENT, *arguments)

    assert done.code == code
    assert said in done.out + done.err


def test_import_of_the_entry_point_by_anything_else_leaves_its_arguments_alone(programs: Programs) -> None:
    text = "import otel_rl.distro.environment_variables, sys; print(sys.argv[1:])"

    assert programs.plain(text, "--config", "x").out == "['--config', 'x']\n"


def test_a_program_that_does_not_exist_is_named_and_ends_as_in_a_shell(programs: Programs) -> None:
    done = programs.run(INSTRUMENT, "no-such-program", "--config", "x")

    assert (done.code, done.out) == (127, "")
    assert done.err == "opentelemetry-instrument: no-such-program: no such program; check its name\n"


def test_a_file_of_python_in_place_of_a_program_is_told_the_command_that_was_meant(programs: Programs) -> None:
    program = programs.write("own.py", "print(1)")
    meant = "this is no program; did you mean: opentelemetry-instrument python"
    done = programs.run(INSTRUMENT, "own.py", "--name", "a b")

    assert (done.code, done.out) == (127, "")
    assert done.err == f"opentelemetry-instrument: own.py: {meant} own.py --name 'a b'\n"
    # Found, and no program all the same: it does not say what runs it.
    program.chmod(0o755)
    done = programs.run(INSTRUMENT, str(program))

    assert (done.code, done.out) == (126, "")
    assert done.err == f"opentelemetry-instrument: {program}: {meant} {program}\n"
