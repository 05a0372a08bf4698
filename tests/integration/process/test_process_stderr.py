"""Our line on standard error: it never changes the exit status, and it never lands in a file of the program.

Each program runs with Python's usual buffering: PYTHONUNBUFFERED would hide a line left in a buffer.
"""

from __future__ import annotations

import os
import shlex
import sys

import pytest
from process_support import INSTRUMENT, ONE_SPAN, Finished, Programs

#: Where our line can go or not, as a shell writes it.
UNWRITABLE = {
    "full disk": "{command} 2>/dev/full",
    "reader of the pipe gone": "{{ {command}; echo $? >status; }} 2>&1 >/dev/null | true; exit $(cat status)",
    "closed descriptor": "{command} 2>&-",
}
#: Waits until nobody reads from standard error any more.
READER_GONE = "import select; poll = select.poll(); poll.register(2, 0); poll.poll()\n"


def run(programs: Programs, text: str, form: str = "{command}", **environ: str) -> Finished:
    """Run ``text`` instrumented, and in a shell command where the form is another one."""
    program = programs.write("program.py", text)
    if form == "{command}":
        return programs.run(INSTRUMENT, sys.executable, program, **environ)
    command = shlex.join([str(INSTRUMENT), sys.executable, str(program)])
    assert "PYTHONUNBUFFERED" not in programs.environ
    return programs.run("bash", "-c", form.format(command=command), **environ)


@pytest.mark.parametrize("form", UNWRITABLE.values(), ids=UNWRITABLE)
def test_exit_status_stays_zero_where_standard_error_cannot_be_written(programs: Programs, form: str) -> None:
    done = run(programs, ONE_SPAN + (READER_GONE if "| true" in form else ""), form)

    assert done.code == 0
    assert programs.store.span_names() == ["work"]


def test_complaint_at_start_does_not_change_the_exit_status_either(programs: Programs) -> None:
    form = UNWRITABLE["full disk"]

    assert run(programs, "pass", form, OTEL_RL_SLOWEST="many", OTEL_TRACES_EXPORTER="nonsense").code == 0


def test_exit_status_of_a_program_that_left_text_in_the_buffer_is_its_own(programs: Programs) -> None:
    text = ONE_SPAN + "import sys\nsys.stderr.write('partial')\n"
    command = shlex.join([sys.executable, str(programs.write("program.py", text))])
    plain = programs.run("bash", "-c", f"{command} 2>/dev/full")

    assert run(programs, text, UNWRITABLE["full disk"]).code == plain.code == 120


def test_file_that_got_descriptor_two_receives_only_what_the_program_wrote(programs: Programs) -> None:
    text = (
        # Delivered first: a thread that opens a file meanwhile would get the number too, ours as any other.
        ONE_SPAN + "import os, otel_rl\n"
        "otel_rl.flush(30)\n"
        "os.close(2)\n"
        "file = open('results', 'w')\n"
        "assert file.fileno() == 2\n"
        "file.write('row\\n')\n"
        "file.flush()\n"
    )
    done = run(programs, text)

    assert done.code == 0
    assert (programs.directory / "results").read_text() == "row\n"


def test_standard_error_that_the_program_redirects_with_dup2_receives_the_line(programs: Programs) -> None:
    text = ONE_SPAN + "import os\nos.dup2(os.open('log', os.O_WRONLY | os.O_CREAT), 2)\n"
    done = run(programs, text)

    assert (done.code, done.err) == (0, "")
    assert "otel-rl: recorded" in (programs.directory / "log").read_text()


@pytest.mark.parametrize(
    "replacement",
    ["open('log', 'w')", "Tee(sys.stderr, open('log', 'w'))"],
    ids=["a file", "an object that copies"],
)
def test_standard_error_that_the_program_replaced_receives_the_line_after_the_programs_text(
    programs: Programs, replacement: str
) -> None:
    text = (
        ONE_SPAN + "import sys\n"
        "class Tee:\n"
        "    def __init__(self, *files): self.files = files\n"
        "    def __getattr__(self, name): return getattr(self.files[0], name)\n"
        "    def write(self, text): [file.write(text) for file in self.files]\n"
        "    def flush(self): [file.flush() for file in self.files]\n"
        f"sys.stderr = {replacement}\n"
        "sys.stderr.write('of the program; ')\n"
    )
    done = run(programs, text)

    assert done.code == 0
    assert (programs.directory / "log").read_text().startswith("of the program; otel-rl: recorded")


def test_replaced_standard_error_on_a_full_disk_keeps_the_exit_status(programs: Programs) -> None:
    done = run(programs, ONE_SPAN + "import sys\nsys.stderr = open('/dev/full', 'w')\n")

    assert done.code == 0


def test_line_comes_after_text_that_the_program_has_not_ended(programs: Programs) -> None:
    done = run(programs, ONE_SPAN + "import sys\nsys.stderr.write('loss 0.5 ')\n")

    assert done.err.startswith("loss 0.5 otel-rl: recorded")
    assert done.err.count(os.linesep) == 1
