"""Real ranks over gloo, watched by `otel-rl live`: a late, a stopped and a dead rank are named, others are not."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

from integration.live.live_command import Live, awaited, ranks, started

from otel_rl.live.liveness import Liveness

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from otel_rl.live.standing import LiveFinding, Standing


def _folder(folder: Path) -> Path:
    return folder / "otel-rl" / "run"


def _found(
    folder: Path, process: subprocess.Popen[Any], is_there: Callable[[Standing], object], hang_seconds: float = 60.0
) -> Standing:
    """The first look at the processes that is as wanted."""
    awaited(_folder(folder).is_dir, process)
    liveness = Liveness(_folder(folder), "run", folder, hang_seconds)

    def look() -> Standing | None:
        standing = liveness.look()
        return standing if is_there(standing) else None

    found: Standing = awaited(look, process)
    return found


def _has(code: str) -> Callable[[Standing], object]:
    return lambda standing: any(finding.code == code for finding in standing.findings)


def _only(standing: Standing) -> LiveFinding:
    (finding,) = standing.findings
    return finding


def test_a_rank_that_sleeps_in_a_step_is_late_within_8_seconds_with_who_waits_for_it(tmp_path: Path) -> None:
    with ranks(tmp_path, "if number == 20 and rank == 1: awaited('go')") as job:
        finding = _only(_found(tmp_path, job, _has("late_rank")))
        (tmp_path / "go").touch()
        assert job.wait(60) == 0
    assert (finding.severity.value, finding.ranks, finding.step) == ("warning", [1], 20)
    assert finding.text.startswith(
        "Rank 1 is in step 20 (train) and has not entered all_reduce number 20 of group default_pg"
    )
    assert "rank 0 has waited for it" in finding.text
    assert finding.cost.startswith("1 rank waits, ")
    # From what its own text says, which does not depend on how busy this machine is.
    assert float(finding.cost.split()[3]) < 8


def test_it_is_a_hang_once_the_watchdog_would_say_so(tmp_path: Path) -> None:
    with ranks(tmp_path, "if number == 20 and rank == 1: awaited('go')") as job:
        finding = _only(_found(tmp_path, job, _has("hang"), hang_seconds=4.0))
        (tmp_path / "go").touch()
    assert (finding.severity.value, finding.ranks) == ("critical", [1])


def test_a_rank_that_is_stopped_is_named_with_who_waits_for_it(tmp_path: Path) -> None:
    with ranks(tmp_path, "if number == 20 and rank == 1: os.kill(os.getpid(), signal.SIGSTOP)") as job:
        standing = _found(
            tmp_path, job, lambda standing: any(finding.severity.value == "critical" for finding in standing.findings)
        )
        stopped = next(sign for sign in standing.processes if sign.rank == 1)
        assert stopped.pid is not None
        os.kill(stopped.pid, signal.SIGCONT)
        assert job.wait(60) == 0
    finding = _only(standing)
    assert (finding.code, finding.ranks) == ("stopped", [1])
    assert (
        "is stopped by a signal (SIGSTOP) in step 20 (train) and has not entered all_reduce number 20" in finding.text
    )


def test_a_rank_that_waits_for_a_tool_is_late_for_that_and_the_tool_is_named(tmp_path: Path) -> None:
    """The tool of rank 0 hangs in its first call, and rank 1 waits for rank 0."""
    calls = "with otel_rl.rollout('r-7'), otel_rl.tool('run_sandbox'): awaited('go')"
    what = f"if number == 8 and rank == 0:\n                {calls}"

    def explains(standing: Standing) -> bool:
        return any(
            finding.code == "hanging_call" and "has not entered" in "".join(finding.evidence)
            for finding in standing.findings
        )

    with ranks(tmp_path, what, OTEL_RL_HANG_SECONDS="1") as job:
        finding = _only(_found(tmp_path, job, explains, hang_seconds=1.0))
        (tmp_path / "go").touch()
        assert job.wait(60) == 0
    assert (finding.title, finding.ranks, finding.step) == ("Tool run_sandbox hangs", [0], 8)
    assert finding.text.startswith(
        "Rank 0 waits in `train` of step 8 for rollout r-7, which waits in tool `run_sandbox`"
    )
    assert finding.severity.value == "critical"
    (late,) = finding.evidence
    assert late.startswith("Rank 0 is in step 8 (train > tool run_sandbox) and has not entered all_reduce number 8")
    assert finding.cost.startswith("1 rank waits, ")


def test_a_long_checkpoint_is_said_as_a_notice_and_is_no_hang(tmp_path: Path) -> None:
    what = "if number == 20 and rank == 0:\n                with otel_rl.phase('checkpoint'): awaited('go')"
    with ranks(tmp_path, what) as job:
        finding = _only(_found(tmp_path, job, _has("late_rank"), hang_seconds=2.0))
        (tmp_path / "go").touch()
    assert (finding.code, finding.severity.value) == ("late_rank", "notice")
    assert "checkpoint" in finding.place


def test_a_healthy_run_has_no_finding_and_is_over_at_its_end(tmp_path: Path) -> None:
    found = []

    def is_over(standing: Standing) -> bool:
        found.extend(standing.findings)
        return standing.is_over

    with ranks(tmp_path) as job:
        awaited(_folder(tmp_path).is_dir, job)
        standing = _found(
            tmp_path, job, lambda standing: found.extend(standing.findings) or standing.state == "running"
        )
        assert {sign.rank for sign in standing.processes} <= {0, 1}
        assert job.wait(60) == 0
    liveness = Liveness(_folder(tmp_path), "run", tmp_path)
    assert awaited(lambda: is_over(liveness.look()))
    assert liveness.look().state == "ended"
    assert found == []


# -- the page and notifications ----------------------------------------------------------------------------------------


class Receiver:
    """Takes notifications on loopback; the first ones get ``answers``, the others 200."""

    def __init__(self, *answers: int) -> None:
        self.taken: list[dict[str, Any]] = []
        waiting, taken = list(answers), self.taken

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                taken.append({**content, "path": self.path})
                self.send_response(waiting.pop(0) if waiting else 200)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/services/SECRET"


@contextmanager
def receiver(*answers: int) -> Iterator[Receiver]:
    taking = Receiver(*answers)
    thread = threading.Thread(target=taking.server.serve_forever)
    thread.start()
    try:
        yield taking
    finally:
        taking.server.shutdown()
        thread.join()
        taking.server.server_close()


KILLED = "if number == 20 and rank == 1: os.kill(os.getpid(), signal.SIGKILL)"


def test_a_death_is_posted_once_and_a_command_gets_it_too_and_the_end_ends_it(tmp_path: Path) -> None:
    (tmp_path / "note.py").write_text(
        "import os, sys, pathlib\n"
        "with pathlib.Path('noted').open('a') as file:\n"
        "    file.write(os.environ['OTEL_RL_NOTIFY_CODE'] + ' ' + sys.stdin.read() + chr(10))\n"
    )
    with receiver(500) as taking, ranks(tmp_path, KILLED) as job:
        awaited(_folder(tmp_path).is_dir, job)
        command = ("--notify", taking.address, "--notify", f"{sys.executable} note.py", "--no-page", "--until-end")
        with started(tmp_path, *command, page=False) as live:
            assert live.process.wait(90) == 0
    first, second = taking.taken
    # One try more after an error, and nothing else.
    assert first == second
    assert first["code"] == "gone"
    assert first["text"].startswith("otel-rl: run: Rank 1 ")
    assert (first["run"], first["severity"], first["place"]) == ("run", "critical", "step 20 (train)")
    assert first["address"] == ""
    (noted,) = (tmp_path / "noted").read_text().splitlines()
    code, _, content = noted.partition(" ")
    assert code == "gone"
    assert json.loads(content)["text"] == first["text"]
    assert (tmp_path / "live-stderr").read_text() == ""


def test_a_notification_that_fails_is_said_once_without_the_address(tmp_path: Path) -> None:
    with receiver(*[302] * 9) as taking, ranks(tmp_path, KILLED) as job:
        awaited(_folder(tmp_path).is_dir, job)
        with started(tmp_path, "--notify", taking.address, "--no-page", "--until-end", page=False) as live:
            assert live.process.wait(90) == 0
    assert len(taking.taken) == 2
    (line,) = (tmp_path / "live-stderr").read_text().splitlines()
    assert line.startswith("otel-rl live: a notification to http://127.0.0.1 failed: the server answered 302")
    assert "SECRET" not in line


def test_a_browser_gets_a_death_and_a_step_as_they_come(tmp_path: Path) -> None:
    with ranks(tmp_path, KILLED) as job:
        awaited(_folder(tmp_path).is_dir, job)
        with started(tmp_path) as live:
            awaited(lambda: live.ask("run/run/")[0] == 200)
            codes, kinds = _until_death(live)
    assert codes == ["gone"]
    assert "changes" in kinds


def _until_death(live: Live) -> tuple[list[str], set[str]]:
    kinds, codes = set(), []
    stream = live.events("run")
    for kind, _, content in stream:
        kinds.add(kind)
        if kind == "status" and content["status"]["findings"]:
            codes = [finding["code"] for finding in content["status"]["findings"]]
        if codes and "changes" in kinds:
            break
    stream.close()
    return codes, kinds


def test_a_browser_that_comes_again_gets_what_it_has_missed(tmp_path: Path) -> None:
    with ranks(tmp_path, steps=60) as job:
        awaited(_folder(tmp_path).is_dir, job)
        with started(tmp_path) as live:
            awaited(lambda: live.ask("run/run/")[0] == 200)
            stream = live.events("run", "?since=0")
            number = next(number for kind, number, _ in stream if kind == "changes")
            following = next(number for kind, number, _ in stream if kind == "changes")
            stream.close()
            again = live.events("run", **{"Last-Event-ID": number})
            kind, missed, _ = next(again)
            again.close()
    assert (kind, missed) == ("changes", following)
