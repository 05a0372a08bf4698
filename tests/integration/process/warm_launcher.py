"""``opentelemetry-instrument`` without its imports: each launch is a fork of one process that has made them.

The fork calls the command's own entry point, which replaces it by the program. From there on nothing differs from a
launch out of a shell, and a fourth of its CPU time is saved. Our own modules are not among those imported before.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LONGEST_REQUEST = 1 << 20
#: The program is a child of the tests, not of the process that it is forked from: they wait for it, and measure it.
_CLONE_PARENT = 0x8000
_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())


class WarmLauncher:
    """Starts programs as ``opentelemetry-instrument`` would."""

    #: Otherwise the number of the system call is not known here.
    is_possible = _CLONE is not None

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST_REQUEST)
        with theirs:
            environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], env=environ, pass_fds=[theirs.fileno()]
            )

    def run(
        self, command: Sequence[str], directory: Path, environ: Mapping[str, str], timeout: float
    ) -> tuple[int, str, str]:
        """Run the command, whose first word is ``opentelemetry-instrument``: status and what it wrote."""
        deadline = time.monotonic() + timeout
        with ExitStack() as files:
            reads, writes = zip(*(os.pipe() for _ in range(3)), strict=True)
            out, err, number = (files.enter_context(os.fdopen(descriptor, "rb")) for descriptor in reads)
            try:
                request = json.dumps([str(directory), dict(environ), list(command)]).encode()
                socket.send_fds(self._requests, [request], writes)
            finally:
                for descriptor in writes:
                    os.close(descriptor)
            program = int(number.read())
            texts = _read_until_it_ends(program, [out.fileno(), err.fileno()], deadline)
            return os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]), *texts

    def stop(self) -> None:
        """End; programs that run are left alone."""
        self._requests.close()
        self._process.wait()


def _read_until_it_ends(program: int, pipes: Sequence[int], deadline: float) -> list[str]:
    """Return the text of each pipe, which children of the program may still have; the program has ended."""
    content = {pipe: bytearray() for pipe in pipes}
    end = os.pidfd_open(program)
    with selectors.DefaultSelector() as selector:
        for descriptor in (*pipes, end):
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                signal.pidfd_send_signal(end, signal.SIGKILL)
                os.close(end)
                os.waitpid(program, 0)
                message = f"still running; {[bytes(one) for one in content.values()]}"
                raise TimeoutError(message)
            for key, _ in ready:
                part = b"" if key.fd == end else os.read(key.fd, 1 << 16)
                if part:
                    content[key.fd] += part
                else:
                    selector.unregister(key.fd)
    os.close(end)
    return [bytes(content[pipe]).decode() for pipe in pipes]


def _serve(requests: socket.socket) -> None:
    """Return in the fork that is to become a program."""
    clone = ctypes.CDLL(None).syscall
    while True:
        request, descriptors, *_ = socket.recv_fds(requests, _LONGEST_REQUEST, 3)
        if not request:
            sys.exit()
        program = clone(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
        out, err, number = descriptors
        if not program:
            break
        os.write(number, b"%d" % program)
        for descriptor in descriptors:
            os.close(descriptor)
    requests.close()
    os.dup2(out, 1)
    os.dup2(err, 2)
    for descriptor in descriptors:
        os.close(descriptor)
    directory, environ, sys.argv[:] = json.loads(request)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environ)


if __name__ == "__main__":
    # Upstream's modules, and the packages that are installed: finding the latter takes most of the time.
    import opentelemetry.environment_variables
    import opentelemetry.instrumentation.environment_variables
    import opentelemetry.sdk.environment_variables  # noqa: F401 - for the forks
    from opentelemetry.instrumentation.auto_instrumentation import run
    from opentelemetry.util._importlib_metadata import entry_points

    # The command's folder, as for a script, and not ours.
    sys.path[0] = str(Path(sys.executable).parent)
    for _each in entry_points(group="opentelemetry_environment_variables"):
        pass
    _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(run())
