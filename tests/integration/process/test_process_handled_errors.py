"""Which exceptions count as the end of the program."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from process_support import INSTRUMENT, ONE_SPAN, Programs

HANDLED = {
    "interpreter": "code.InteractiveInterpreter({namespace}).runsource('1/0')",
    "syntax": "code.InteractiveInterpreter({namespace}).runsource('1 +* 2')",
    "interrupt": "code.InteractiveInterpreter({namespace}).runsource('raise KeyboardInterrupt')",
}


def run_span(programs: Programs) -> dict[str, Any]:
    (span,) = [span for span in programs.store.spans() if span["name"] == "rl.run"]
    return span


@pytest.mark.parametrize("namespace", ["{}", "globals()"])
@pytest.mark.parametrize("handled", HANDLED)
def test_error_that_an_interactive_interpreter_has_handled_does_not_fail_the_run(
    programs: Programs, handled: str, namespace: str
) -> None:
    text = (
        "import code, sys\nsys.excepthook = sys.__excepthook__\n" + HANDLED[handled].format(namespace=namespace) + "\n"
    )

    plain, instrumented = programs.plain(text + ONE_SPAN), programs.instrumented(text + ONE_SPAN)

    assert plain.code == instrumented.code == 0
    assert run_span(programs).get("status", {}).get("code") != 2
    assert "uncaught" not in str(programs.store.manifests())
    assert programs.store.events("rl.process.exception") == []


@pytest.mark.parametrize("form", [["program.py"], ["-m", "program"], ["-c", ONE_SPAN + "\n{}['missing']"]], ids=len)
def test_error_that_nothing_handles_fails_the_run(programs: Programs, form: list[str]) -> None:
    programs.write("program.py", ONE_SPAN + "\ndef work(): {}['missing']\nwork()")
    done = programs.run(INSTRUMENT, sys.executable, *form)

    assert done.code == 1
    assert run_span(programs)["status"]["code"] == 2
    assert len(programs.store.events("rl.process.exception")) == 1
