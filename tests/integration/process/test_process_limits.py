"""Limits of the system: the program runs as without us, and one clear line says what is not recorded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from process_support import ONE_SPAN, Programs, closed_port

if TYPE_CHECKING:
    from process_support import Finished

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def only_line(done: Finished, said: str) -> None:
    """The program ran, and stderr has one line of ours."""
    assert (done.code, done.out) == (0, "finished\n")
    (line,) = done.err.splitlines()
    assert said in line
    assert "internal error" not in line


@pytest.fixture(autouse=True)
def as_for_a_user(programs: Programs) -> None:
    """Internal errors do not surface, so that a line about one would be seen."""
    del programs.environ["OTEL_RL_RAISE_INTERNAL_ERRORS"]


def test_size_limit_of_files_with_the_default_signal_neither_kills_nor_loses(programs: Programs) -> None:
    done = programs.instrumented(
        "import resource, signal\n"
        "from opentelemetry import trace\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "for number in range(200):\n"
        "    trace.get_tracer('t').start_span(str(number)).end()\n"
        "    if number % 20 == 19: trace.get_tracer_provider().force_flush()\n"
        "print('finished')\n",
        OTEL_RL_QUIET="1",
    )

    assert (done.code, done.out, done.err) == (0, "finished\n", "")
    assert len(programs.store.span_names()) == 200
    assert all(file.stat().st_size <= 20_000 for file in programs.store.root.rglob("*.jsonl"))


def test_no_descriptor_left(programs: Programs) -> None:
    done = programs.instrumented(
        "import os\nfrom opentelemetry import metrics, trace\n"
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\n"
        "held = []\n"
        "try:\n"
        "    while True: held.append(os.open('/dev/null', os.O_RDONLY))\n"
        "except OSError: pass\n" + ONE_SPAN + "print('finished')\n",
        OTEL_RL_QUIET="1",
    )

    only_line(done, "Too many open files")


def test_no_descriptor_left_for_the_network(programs: Programs) -> None:
    done = programs.instrumented(
        "import os, resource\nfrom opentelemetry import metrics, trace\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\n"
        "held = []\n"
        "try:\n"
        "    while True: held.append(os.open('/dev/null', os.O_RDONLY))\n"
        "except OSError: pass\n" + ONE_SPAN + "print('finished')\n",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{closed_port()}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
    )

    only_line(done, "the exporter otlp_proto_http could not be opened in this process")
    assert "delivered to ;" not in done.err


def test_no_thread_of_ours_is_left_to_the_end_of_the_interpreter(programs: Programs) -> None:
    # There it would end by pthread_exit, which aborts the program where no descriptor is left.
    done = programs.instrumented(
        ONE_SPAN + "import os\nfrom otel_rl.ending import exit as process_exit\n"
        "def threads(deliver=process_exit.deliver):\n"
        "    deliver()\n"
        "    # Joined, a thread still has to leave the kernel.\n"
        "    while len(os.listdir('/proc/self/task')) > 1: pass\n"
        "    print('alone', flush=True)\n"
        "process_exit.deliver = threads\n",
        OTEL_RL_QUIET="1",
    )

    assert done.out == "alone\n"


def test_few_descriptors_are_enough(programs: Programs) -> None:
    done = programs.instrumented(
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\n" + ONE_SPAN + "print('finished')\n",
        OTEL_RL_QUIET="1",
    )

    assert (done.code, done.out, done.err) == (0, "finished\n", "")
    assert programs.store.span_names() == ["work"]


def test_working_directory_that_is_deleted_while_the_program_runs(programs: Programs) -> None:
    done = programs.instrumented(
        ONE_SPAN + "import os\nos.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\nprint('finished')\n",
        OTEL_RL_QUIET="1",
    )

    assert (done.code, done.out, done.err) == (0, "finished\n", "")
    assert programs.store.span_names() == ["work"]


@root
def test_dropped_privileges(programs: Programs) -> None:
    programs.directory.chmod(0o755)
    done = programs.instrumented(
        "import os\nfrom opentelemetry import metrics, trace\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        + ONE_SPAN
        + "print('finished')\n"
    )

    only_line(done, "Permission denied")


@root
def test_chroot(programs: Programs) -> None:
    done = programs.instrumented(
        "import os\nfrom opentelemetry import metrics, trace\nos.mkdir('jail'); os.chroot('jail'); os.chdir('/')\n"
        + ONE_SPAN
        + "print('finished')\n"
    )

    only_line(done, "could not be opened in this process")


def test_no_thread_left(programs: Programs) -> None:
    done = programs.instrumented(
        "from otel_rl.pipeline import io_thread\n"
        'def refuse(*_): raise RuntimeError("can\'t start new thread")\n'
        "io_thread.start_new_thread = refuse\n" + ONE_SPAN + "print('finished')\n"
    )

    only_line(done, "could not be delivered")


def test_what_the_file_store_could_not_write_is_counted_in_the_last_line(programs: Programs) -> None:
    done = programs.instrumented(
        ONE_SPAN + "import otel_rl, resource\n"
        "assert otel_rl.flush(30)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))\n"
        "tracer = trace.get_tracer('program')\n"
        "for number in range(20): tracer.start_span('late').end()\n"
        "assert not otel_rl.flush(30)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "print('finished')\n",
    )

    assert (done.code, done.out) == (0, "finished\n"), done.err
    first, last = done.err.splitlines()
    assert "cannot write to" in first
    assert "20 spans could not be written to" in last or "20 spans and" in last
