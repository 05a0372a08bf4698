"""What the leading process did outside of steps, and which program it is: once something else is recorded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from process_support import plain

if TYPE_CHECKING:
    from process_support import Programs

#: Takes 60 ms to import, and is one of the libraries that are measured.
LARGE = "import time\ntime.sleep(0.06)\n"
STEP = "import otel_rl, peft\nwith otel_rl.step(1):\n    pass\n"


def _parts(programs: Programs) -> dict[str, list[float]]:
    """Seconds of the parts, by their names."""
    found: dict[str, list[float]] = {}
    for span in programs.store.spans():
        if span["name"] == "rl.run.part":
            seconds = (int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])) / 1e9
            found.setdefault(plain(span["attributes"])["rl.run.part"], []).append(seconds)
    return found


def _program(programs: Programs) -> dict[str, Any]:
    (event,) = (end for end in programs.store.events("rl.run.end") if "process.creation.time" in plain_keys(end))
    return {item["key"]: item["value"] for item in event["attributes"]}


def plain_keys(event: dict[str, Any]) -> set[str]:
    return {item["key"] for item in event["attributes"]}


def _list(value: dict[str, Any]) -> list[str]:
    return [item["stringValue"] for item in value["arrayValue"]["values"]]


def test_start_up_and_imports_are_parts_of_the_run(programs: Programs) -> None:
    programs.write("peft/__init__.py", LARGE)
    begin = time.monotonic()
    done = programs.instrumented(STEP)
    whole = time.monotonic() - begin

    assert (done.code, done.out) == (0, "")
    parts = _parts(programs)
    assert parts.keys() == {"import"}
    program = _program(programs)
    start, ours = (program[f"{name}.start_up.duration"]["doubleValue"] for name in ("rl.run", "rl.telemetry"))
    assert 0 < ours < start < whole
    # Slept, and no more than the whole.
    assert 0.06 <= parts["import"][0] < whole
    (run,) = (span for span in programs.store.spans() if span["name"] == "rl.run")
    parents = {span["parentSpanId"] for span in programs.store.spans() if span["name"] == "rl.run.part"}
    assert parents == {run["spanId"]}


def test_program_is_recorded_with_its_arguments_and_without_their_secrets(programs: Programs) -> None:
    programs.write("peft/__init__.py", LARGE + "__version__ = '1.2.3'\n")
    programs.instrumented(STEP, "--lr", "1e-5", "--hub_token", "abc-not-to-be-seen")

    program = _program(programs)
    assert _list(program["process.command_args"])[1:] == ["--lr", "1e-5", "--hub_token", "***"]
    assert "peft 1.2.3" in _list(program["rl.run.library.versions"])
    assert program["process.creation.time"]["stringValue"].endswith("Z")
    for file in programs.store.root.rglob("*"):
        assert file.is_dir() or b"abc-not-to-be-seen" not in file.read_bytes()


def test_arguments_are_not_recorded_where_that_is_switched_off(programs: Programs) -> None:
    programs.write("peft/__init__.py", LARGE)
    programs.instrumented(STEP, "--lr", "1e-5", OTEL_RL_ARGUMENTS="off")

    assert "process.command_args" not in _program(programs)


def test_users_function_redacts_the_arguments(programs: Programs) -> None:
    programs.write("privacy.py", "def redact(text): return text.replace('someone', '[name]')\n")
    programs.write("peft/__init__.py", LARGE)
    programs.instrumented(STEP, "--owner", "someone", OTEL_RL_REDACT="privacy:redact")

    assert _list(_program(programs)["process.command_args"])[1:] == ["--owner", "[name]"]


def test_they_are_no_record_of_their_own(programs: Programs) -> None:
    programs.write("peft/__init__.py", LARGE)
    done = programs.instrumented("import peft\n")

    assert (done.code, done.err) == (0, "")
    assert programs.store.directories == []


def test_fork_repeats_nothing_of_its_parent(programs: Programs) -> None:
    programs.write("peft/__init__.py", LARGE)
    programs.instrumented(
        "import os\n" + STEP + "child = os.fork()\nif child == 0:\n"
        "    with otel_rl.tool('in_child'): pass\n    raise SystemExit\nos.waitpid(child, 0)\n"
    )

    assert len(programs.store.directories) == 2
    assert len(_parts(programs)["import"]) == 1
    assert _list(_program(programs)["process.command_args"])


def test_a_process_that_goes_on_says_which_program_it_is_before_its_end(programs: Programs) -> None:
    programs.write("peft/__init__.py", LARGE)
    wait = (
        "import os, glob, signal, time\n"
        "def written(name, files):\n"
        "    return any(name in open(file).read() for file in glob.glob(f'otel-rl/*/*/{files}-*'))\n"
        "while not (written('rl.run.program', 'logs') and written('rl.run.part', 'traces')):\n"
        "    time.sleep(0.1)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert programs.instrumented(STEP + wait, "--lr", "1e-5").code == -9

    (event,) = programs.store.events("rl.run.program")
    assert "process.command_args" in plain_keys(event)
    assert len(_parts(programs)["import"]) == 1
