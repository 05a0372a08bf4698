"""How a run ended, from what its processes and their parents left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from unit.report.made_up_jobs import STARTED, examined
from unit.report.synthetic_run import SECOND, ProcessWriter, process

from otel_rl.process import exit_status

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.report.core.finding import Finding


def _writer(folder: Path, rank: int | None = None, ago: float = 10.0, **identity: Any) -> ProcessWriter:
    writer = process(folder / folder.name, rank, started=time.time_ns() - int(ago * SECOND), **identity)
    writer.span("rl.rank.step", 1, 2, {"rl.loop.iteration": 7})
    return writer


def _findings(folder: Path, *writers: ProcessWriter, status: bytes | None = None) -> list[Finding]:
    for writer in writers:
        writer.write()
        if status is not None:
            (writer.folder / exit_status.NAME).write_bytes(status)
    codes = ("ended", "running", "missing_ranks", "thread_died", "cell_failed", "errors")
    return [one for one in examined(folder / folder.name).findings if one.code in codes]


def test_an_end_by_sigterm_in_order_is_a_notice(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    writer.event("rl.run.end", 3, attributes={"rl.run.end.signal": "SIGTERM"})
    [finding] = _findings(tmp_path, writer)
    assert (finding.severity, finding.text) == ("notice", "trainer 4000 was stopped by SIGTERM.")


def test_a_collectors_files_tell_a_status_too(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    writer.event("rl.run.end", 3, attributes={"process.exit.code": 3})
    [finding] = _findings(tmp_path, writer)
    assert (finding.severity, finding.text) == ("critical", "trainer 4000 exited with status 3.")


@pytest.mark.parametrize(("ago", "severity"), [(10.0, "warning"), (7200.0, "critical")])
def test_without_an_end_a_run_of_another_machine_may_run_until_it_was_silent_for_long(
    tmp_path: Path, ago: float, severity: str
) -> None:
    writer = _writer(tmp_path, ago=ago)
    writer.clean_exit = False
    [finding] = _findings(tmp_path, writer)
    assert finding.severity == severity
    assert finding.text.startswith("trainer 4000 has no end recorded; last sign 20")


def test_a_process_that_left_no_status_while_it_shut_down_is_said(tmp_path: Path) -> None:
    [finding] = _findings(tmp_path, _writer(tmp_path), status=b"")
    assert finding.severity == "notice"
    assert "left no exit status" in finding.text


def test_the_status_of_the_process_itself_makes_it_failed(tmp_path: Path) -> None:
    [finding] = _findings(tmp_path, _writer(tmp_path), status=b"\x07")
    assert (finding.severity, finding.text) == ("critical", "trainer 4000 exited with status 7.")


def test_a_thread_that_died_before_the_process_failed_is_the_first_error(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    values = {"exception.type": "KeyError", "exception.message": "'prompt'", "thread.name": "prefetch"}
    writer.event("rl.process.exception", 3, attributes=values, severity=17)
    writer.event("rl.process.exception", 5, attributes={"exception.type": "Empty"}, severity=21)
    writer.ended = writer.at(6)
    [finding] = _findings(tmp_path, writer)
    assert finding.text == "thread prefetch of trainer 4000 died of KeyError: 'prompt'; the process went on for 3 s."
    assert [symptom.text for symptom in finding.symptoms] == ["trainer 4000 failed: Empty, before the first step."]


@pytest.mark.parametrize(
    ("kind", "message", "said"),
    [
        ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 GiB", "The memory of the GPU was full."),
        ("torch.cuda.OutOfMemoryError", "CUDA out of memory.", "The memory of the GPU was full."),
        ("OSError", "[Errno 28] No space left on device", "a disk or its quota was full"),
        ("torch.distributed.DistNetworkError", "EADDRINUSE: port 29500", "another process has the port"),
        ("MemoryError", "", "main memory"),
        ("torch.distributed.DistBackendError", "Watchdog caught collective operation timeout", "NCCL's watchdog"),
        ("ModuleNotFoundError", "No module named 'x'", "a module is not installed"),
        ("json.decoder.JSONDecodeError", "Expecting value", "The data could not be read."),
    ],
)
def test_known_failures_have_words_and_a_next_step(tmp_path: Path, kind: str, message: str, said: str) -> None:
    writer = _writer(tmp_path)
    values = {"exception.type": "RuntimeError", "exception.message": "outer", "rl.cause.exception.type": kind}
    writer.event("rl.process.exception", 3, attributes={**values, "rl.cause.exception.message": message}, severity=21)
    [finding] = _findings(tmp_path, writer)
    assert said in finding.evidence[0]
    assert finding.look_at


def test_an_ordinary_exception_is_of_the_programs_own_code_or_of_a_library(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    values = {
        "exception.type": "ValueError",
        "exception.message": "bad\n  value " + "x" * 1000,
        "code.file.path": "trl/trainer/grpo_trainer.py",
        "code.line.number": 41,
        "code.function.name": "GRPOTrainer.train",
        "rl.exception.library": "trl",
        "rl.exception.program.location": "train.py:12, in main",
        "rl.exception.in_step": True,
        "rl.loop.iteration": 7,
        "rl.phase": "train",
    }
    writer.event("rl.process.exception", 3, attributes=values, severity=21)
    [finding] = _findings(tmp_path, writer)
    assert finding.evidence == ["Raised in the library trl; the program was at train.py:12, in main."]
    assert finding.text.startswith("trainer 4000 failed: ValueError: bad value xxx")
    assert finding.text.endswith(
        "x… (trl/trainer/grpo_trainer.py:41, in GRPOTrainer.train), during step 7, phase train."
    )
    assert len(finding.text) < 400
    assert finding.onset == 7


def test_a_crash_of_a_loop_whose_steps_nobody_marks_is_not_before_the_first_step(tmp_path: Path) -> None:
    writer = process(tmp_path / tmp_path.name, 0, started=time.time_ns() - 10 * SECOND, rl__system__name=None)
    writer.event("rl.process.exception", 5.0, attributes={"exception.type": "ValueError", "exception.message": "boom"})
    [ended] = [finding for finding in _findings(tmp_path, writer) if finding.code == "ended"]
    assert "failed: ValueError: boom" in ended.text
    assert "step" not in ended.text


def test_of_the_traceback_that_nbclient_quotes_the_last_line_is_said_without_colours(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    message = "An error occurred:\n------\n1/0\n\x1b[0;31mZeroDivisionError\x1b[0m: division by zero\n"
    writer.event(
        "rl.process.exception", 5.0, attributes={"exception.type": "CellExecutionError", "exception.message": message}
    )
    [ended] = [finding for finding in _findings(tmp_path, writer) if finding.code == "ended"]
    assert "CellExecutionError: ZeroDivisionError: division by zero" in ended.text


def test_of_the_traceback_that_ray_quotes_the_last_line_is_said(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    message = "ray::Worker.f() (pid=7, ip=10.0.0.1)\n  File 'w.py', line 3, in f\nValueError: of the worker"
    kind = "ray.exceptions.RayTaskError(ValueError)"
    writer.event("rl.process.exception", 5.0, attributes={"exception.type": kind, "exception.message": message})
    [ended] = [finding for finding in _findings(tmp_path, writer) if finding.code == "ended"]
    assert f"failed: {kind}: ValueError: of the worker" in ended.text


def _cell(writer: ProcessWriter, at: float, cell: int, kind: str) -> None:
    values = {"exception.type": kind, "exception.message": f"of {cell}", "rl.exception.cell": cell}
    writer.event("rl.process.exception", at, attributes=values, severity=17)


def test_cells_before_the_one_that_ended_a_notebook_are_a_warning_beside_it(tmp_path: Path) -> None:
    writer = _writer(tmp_path, service__name="grpo")
    _cell(writer, 3, 4, "KeyError")
    _cell(writer, 4, 6, "ValueError")
    writer.event("rl.run.end", 5, attributes={"error.type": "ValueError"})
    writer.ended, writer.exit_reason, writer.clean_exit = writer.at(6), "uncaught ValueError in the last cell", False
    ended, failed = _findings(tmp_path, writer)
    assert (ended.severity, failed.severity) == ("critical", "warning")
    assert "failed in cell 6, its last: ValueError: of 6" in ended.text
    assert failed.text.endswith(": cell 4 failed: KeyError: of 4; the notebook went on.")


def test_an_interrupted_cell_is_no_failure(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    _cell(writer, 3, 4, "KeyboardInterrupt")
    writer.event("rl.run.end", 5)
    writer.ended = writer.at(6)
    assert _findings(tmp_path, writer, status=b"\x00") == []


@pytest.mark.parametrize(
    ("errors", "records", "said"),
    [
        (["bad"], 0, "1 failed span: ValueError in call bad."),
        (["bad", "bad"], 0, "2 failed spans, all of them ValueError in call bad."),
        (["bad", "bad", "worse"], 0, "3 failed spans: 2 ValueError in call bad, 1 ValueError in call worse."),
        (["bad", "worse"], 0, "2 failed spans: 1 ValueError in call bad, 1 ValueError in call worse."),
        ([], 1, "1 error record: ValueError in log otel_rl.trl."),
        (
            ["bad", "bad"],
            1,
            "3 failed spans and error records: 2 ValueError in call bad, 1 ValueError in log otel_rl.trl.",
        ),
    ],
)
def test_errors_are_counted_by_what_they_are(tmp_path: Path, errors: list[str], records: int, said: str) -> None:
    writer = _writer(tmp_path)
    for place, name in enumerate(errors):
        writer.span(f"call {name}", place, place + 0.5, error="ValueError")
    for place in range(records):
        writer.event("", place, attributes={"exception.type": "ValueError"}, severity=17)
    writer.ended = writer.at(6)
    [finding] = [one for one in _findings(tmp_path, writer, status=b"\x00") if one.code == "errors"]
    assert finding.text == said


@pytest.mark.parametrize(
    ("message", "is_gone"), [("Connection closed by peer [127.0.0.1]:10397", True), ("bad value", False)]
)
def test_a_rank_that_ended_in_order_before_the_connection_to_it_failed_is_named_first(
    tmp_path: Path, message: str, *, is_gone: bool
) -> None:
    folder = tmp_path / tmp_path.name
    for rank in (0, 1):
        writer = process(folder, rank, started=STARTED, world_size=2)
        for step in range(1, 5):
            writer.span("rl.rank.step", step, step + 0.9, {"rl.loop.iteration": step})
        if rank == 0:
            values = {"exception.type": "RuntimeError", "exception.message": message, "rl.loop.iteration": 4}
            writer.event("rl.process.exception", 8, attributes=values, severity=21)
        else:
            writer.event("rl.run.end", 6, attributes={})
        writer.ended, writer.clean_exit = writer.at(6 + 2 * (rank == 0)), rank == 1
        writer.write()
    [finding] = [one for one in examined(folder).findings if one.severity != "notice"]
    assert finding.text.startswith("Rank 1 ended in order" if is_gone else "rank 0 failed: RuntimeError: bad value")
    assert (finding.ranks == [1]) is is_gone
