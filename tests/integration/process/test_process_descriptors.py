"""A program that closes every descriptor, as daemons do, keeps the files that get our numbers to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from process_support import Programs

#: Records to files, closes all descriptors, and opens files of its own, which get the numbers of ours.
DAEMON = """
import os, sys
import otel_rl

def record(name):
    with otel_rl.tool(name):
        pass
    assert otel_rl.flush(60)

record("before")
if "fork" in sys.argv and (child := os.fork()):
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os.closerange(3, 256)
files = [os.open(f"own-{number}", os.O_RDWR | os.O_CREAT) for number in range(16)]
record("after")
for number, file in enumerate(files):
    os.write(file, b"mine")
    assert os.pread(file, 99, 0) == b"mine", number
"""


@pytest.mark.parametrize("arguments", [(), ("fork",)], ids=["same-process", "forked-child"])
def test_files_of_a_program_that_closed_every_descriptor_are_neither_written_nor_closed(
    programs: Programs, arguments: tuple[str, ...]
) -> None:
    done = programs.instrumented(DAEMON, *arguments)
    assert done.code == 0, done.err
    assert {"execute_tool before", "execute_tool after"} <= set(programs.store.span_names())
