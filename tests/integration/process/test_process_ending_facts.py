"""What a process leaves behind about its end: origin of the exception, step and phase, thread, exit status."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest
from process_support import INSTRUMENT, ONE_SPAN, Programs

from otel_rl.process import exit_status
from otel_rl.semconv import attributes as names

LIBRARY = """
def load(path):
    try:
        return open(path).read()
    except OSError as error:
        raise RuntimeError("could not load the batch") from error
"""


def exception(programs: Programs) -> dict[str, Any]:
    (event,) = programs.store.events("rl.process.exception")
    return {pair["key"]: next(iter(pair["value"].values())) for pair in event["attributes"]}


def statuses(programs: Programs) -> list[int | None]:
    folders = [path.parent for path in programs.store.root.rglob("manifest.json")]
    return [exit_status.read(folder) for folder in folders if (folder / exit_status.NAME).exists()]


def test_the_root_cause_of_a_chain_its_library_and_the_line_of_the_program(programs: Programs) -> None:
    programs.write("libs/site-packages/batches/__init__.py", LIBRARY)
    done = programs.instrumented(
        "import sys; sys.path.append('libs/site-packages')\n"
        "import otel_rl, batches\n"
        "def main():\n"
        "    with otel_rl.step(7), otel_rl.phase('train'):\n"
        "        batches.load('missing.jsonl')\n"
        "main()\n"
    )

    assert done.code == 1
    values = exception(programs)
    assert values[names.EXCEPTION_TYPE] == "RuntimeError"
    assert values[names.RL_CAUSE_EXCEPTION_TYPE] == "FileNotFoundError"
    assert "missing.jsonl" in values[names.RL_CAUSE_EXCEPTION_MESSAGE]
    assert (values[names.CODE_FILE_PATH], values[names.CODE_LINE_NUMBER]) == ("batches/__init__.py", "4")
    assert values[names.CODE_FUNCTION_NAME] == "load"
    assert values[names.RL_EXCEPTION_LIBRARY] == "batches"
    assert values[names.RL_EXCEPTION_PROGRAM_LOCATION] == "program.py:5, in main"
    assert values[names.RL_EXCEPTION_IN_STEP] is True
    assert (values[names.RL_LOOP_ITERATION], values[names.RL_PHASE]) == ("7", "train")
    assert names.THREAD_NAME not in values


def test_an_exception_after_a_completed_step_is_in_no_step(programs: Programs) -> None:
    programs.instrumented("import otel_rl\nwith otel_rl.step(3): pass\n{}['reward']\n")

    values = exception(programs)
    assert (values[names.RL_EXCEPTION_IN_STEP], values[names.RL_LOOP_ITERATION]) == (False, "3")
    assert names.RL_PHASE not in values
    assert names.RL_EXCEPTION_LIBRARY not in values


def test_an_exception_that_an_earlier_step_survived_is_not_taken_for_the_last_one(programs: Programs) -> None:
    programs.instrumented(
        "import otel_rl\n"
        "for number in (1, 2):\n"
        "    try:\n"
        "        with otel_rl.step(number):\n"
        "            if number == 1: raise KeyError('x')\n"
        "    except KeyError: pass\n"
        "raise KeyError('x')\n"
    )

    assert exception(programs)[names.RL_EXCEPTION_IN_STEP] is False


def test_a_thread_is_named(programs: Programs) -> None:
    done = programs.instrumented(
        "import threading\nthread = threading.Thread(target=lambda: {}['prompt'], name='prefetch')\n"
        "thread.start(); thread.join()\n" + ONE_SPAN
    )

    assert done.code == 0
    assert exception(programs)[names.THREAD_NAME] == "prefetch"
    assert statuses(programs) == [0]


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("pass", 0),
        ("sys.exit(0)", 0),
        ("sys.exit(1)", 1),
        ("sys.exit('no checkpoint')", 1),
        ("sys.exit(300)", 44),
        ("raise SystemExit(5)", 5),
        ("{}['x']", 1),
    ],
)
def test_the_exit_status_is_left_beside_the_manifest(programs: Programs, ending: str, status: int) -> None:
    text = "import sys\n" + ONE_SPAN + ending + "\n"
    plain, instrumented = programs.plain(text), programs.instrumented(text)

    assert plain.code == instrumented.code == status
    assert statuses(programs) == [status]


def test_a_process_that_a_signal_ends_while_it_shuts_down_leaves_no_status(programs: Programs) -> None:
    programs.write(
        "dies.py",
        ONE_SPAN + "import os, signal\n"
        "class Last:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGKILL)\n"
        "last = Last()\n",
    )
    done = programs.run(INSTRUMENT, sys.executable, "dies.py")
    assert done.code == -signal.SIGKILL
    assert statuses(programs) == [None]


def test_ctrl_c_fails_no_run(programs: Programs) -> None:
    path = programs.write("program.py", ONE_SPAN + "import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    process = subprocess.Popen(
        [INSTRUMENT, sys.executable, path],
        cwd=programs.directory, env=programs.environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(300) == -signal.SIGINT

    (event,) = programs.store.events("rl.process.exception")
    assert event["severityText"] == "WARN"
    (span,) = [span for span in programs.store.spans() if span["name"] == "rl.run"]
    assert span.get("status", {}).get("code") != 2


def test_the_message_of_the_root_cause_passes_the_redaction_of_the_user(programs: Programs) -> None:
    programs.write("privacy.py", "def redact(text): return text.replace('secret', '[gone]')\n")
    programs.instrumented(
        ONE_SPAN + "try: {}['secret']\nexcept KeyError as error: raise ValueError('x') from error\n",
        OTEL_RL_REDACT="privacy:redact",
    )
    values = exception(programs)
    assert values[names.RL_CAUSE_EXCEPTION_TYPE] == "KeyError"
    assert values[names.RL_CAUSE_EXCEPTION_MESSAGE] == "'[gone]'"
