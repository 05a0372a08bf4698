"""Real ranks over gloo, watched by `otel-rl live`: a late, a stopped and a dead rank are named, others are not.

Two jobs are watched: in one, something is wrong with a rank again and again, until the test has seen it; in the other
one a rank dies.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from integration.live.live_command import SCRIPTS, TIMEOUT, Live, Ranks, awaited, environment, ranks, started

from otel_rl.live.liveness import Liveness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from otel_rl.live.standing import LiveFinding, Standing

#: A file for each of them lets the job go on.
LATE, STOPPED, CHECKPOINT, TOOL, BOTH = 20, 27, 34, 41, 48
TROUBLE = f"""if number == {LATE} and rank == 1: awaited('late')
if number == {STOPPED} and rank == 1: os.kill(os.getpid(), signal.SIGSTOP)
if number == {CHECKPOINT} and rank == 0:
    with otel_rl.phase('checkpoint'): awaited('checkpoint')
if number == {TOOL} and rank == 0:
    with otel_rl.rollout('r-7'), otel_rl.tool('run_sandbox'): awaited('tool')
if number == {BOTH}: awaited('both')"""
DEATH = """if rank == 1 and (FOLDER / 'die').exists():
    (FOLDER / 'died').write_text(str(number))
    os.kill(os.getpid(), signal.SIGKILL)"""


class Watched(NamedTuple):
    """What was seen of a job while it ran, and after its end."""

    while_well: list[Standing]
    late: Standing
    hang: Standing
    stopped: Standing
    checkpoint: Standing
    tool: Standing
    frame: str
    statuses: list[int]
    at_the_end: list[Standing]


class Watcher:
    """Looks at the job below ``folder`` until something is there, each time as somebody who has just come."""

    def __init__(self, folder: Path, job: Ranks | None) -> None:
        self.folder, self._job = folder, job
        self.run = folder / "otel-rl" / "run"
        awaited(self.run.is_dir, job)

    def seen(self, is_there: Callable[[Standing], object], hang_seconds: float = 60.0) -> Standing:
        return self.looks(is_there, hang_seconds)[-1]

    def looks(self, is_there: Callable[[Standing], object], hang_seconds: float = 60.0) -> list[Standing]:
        """All looks up to the first that is as wanted."""
        liveness, found = Liveness(self.run, "run", self.folder, hang_seconds), []

        def is_as_wanted() -> object:
            found.append(liveness.look())
            return is_there(found[-1])

        awaited(is_as_wanted, self._job)
        return found

    def go_on(self, name: str) -> None:
        (self.folder / name).touch()


def _has(code: str) -> Callable[[Standing], object]:
    return lambda standing: any(finding.code == code for finding in standing.findings)


def _only(standing: Standing) -> LiveFinding:
    (finding,) = standing.findings
    return finding


def _steps(standing: Standing) -> list[int | None]:
    return [sign.step for sign in standing.processes]


def _is_critical(standing: Standing) -> bool:
    return any(finding.severity.value == "critical" for finding in standing.findings)


def _explains(standing: Standing) -> bool:
    return any(
        finding.code == "hanging_call" and "has not entered" in "".join(finding.evidence)
        for finding in standing.findings
    )


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    folder = tmp_path_factory.mktemp("watched")
    with ranks(folder, TROUBLE, 55, OTEL_RL_HANG_SECONDS="1") as job:
        watcher = Watcher(folder, job)
        while_well = watcher.looks(lambda standing: standing.state == "running")
        late = watcher.seen(_has("late_rank"))
        hang = watcher.seen(_has("hang"), hang_seconds=4.0)
        watcher.go_on("late")
        stopped = watcher.seen(_is_critical)
        os.kill(next(sign.pid for sign in stopped.processes if sign.rank == 1), signal.SIGCONT)
        checkpoint = watcher.seen(_has("late_rank"), hang_seconds=2.0)
        watcher.go_on("checkpoint")
        tool = watcher.seen(_explains, hang_seconds=1.0)
        watcher.go_on("tool")
        watcher.seen(lambda standing: _steps(standing) == [BOTH, BOTH])
        top = [SCRIPTS / "otel-rl", "top", "--once"]
        frame = subprocess.run(
            top, cwd=folder, env=environment(folder), check=True, capture_output=True, text=True, timeout=TIMEOUT
        ).stdout
        watcher.go_on("both")
        statuses = job.wait()
    at_the_end = Watcher(folder, None).looks(lambda standing: standing.is_over)
    return Watched(while_well, late, hang, stopped, checkpoint, tool, frame, statuses, at_the_end)


def test_a_rank_that_sleeps_in_a_step_is_late_within_8_seconds_with_who_waits_for_it(watched: Watched) -> None:
    finding = _only(watched.late)
    assert (finding.severity.value, finding.ranks, finding.step) == ("warning", [1], LATE)
    assert finding.text.startswith(
        f"Rank 1 is in step {LATE} (train) and has not entered all_reduce number {LATE} of group default_pg"
    )
    assert "rank 0 has waited for it" in finding.text
    assert finding.cost.startswith("1 rank waits, ")
    # From what its own text says, which does not depend on how busy this machine is.
    assert float(finding.cost.split()[3]) < 8


def test_it_is_a_hang_once_the_watchdog_would_say_so(watched: Watched) -> None:
    finding = _only(watched.hang)
    assert (finding.severity.value, finding.ranks) == ("critical", [1])


def test_a_rank_that_is_stopped_is_named_with_who_waits_for_it(watched: Watched) -> None:
    finding = _only(watched.stopped)
    assert (finding.code, finding.ranks) == ("stopped", [1])
    said = f"is stopped by a signal (SIGSTOP) in step {STOPPED} (train) and has not entered all_reduce number {STOPPED}"
    assert said in finding.text


def test_a_rank_that_waits_for_a_tool_is_late_for_that_and_the_tool_is_named(watched: Watched) -> None:
    """The tool of rank 0 hangs in its first call, and rank 1 waits for rank 0."""
    finding = _only(watched.tool)
    assert (finding.title, finding.ranks, finding.step) == ("Tool run_sandbox hangs", [0], TOOL)
    assert finding.text.startswith(
        f"Rank 0 waits in `train` of step {TOOL} for rollout r-7, which waits in tool `run_sandbox`"
    )
    assert finding.severity.value == "critical"
    (late,) = finding.evidence
    said = f"Rank 0 is in step {TOOL} (train > tool run_sandbox) and has not entered all_reduce number {TOOL}"
    assert late.startswith(said)
    assert finding.cost.startswith("1 rank waits, ")


def test_a_long_checkpoint_is_said_as_a_notice_and_is_no_hang(watched: Watched) -> None:
    finding = _only(watched.checkpoint)
    assert (finding.code, finding.severity.value) == ("late_rank", "notice")
    assert "checkpoint" in finding.place


def test_a_run_has_no_finding_while_it_is_well_and_is_over_at_its_end(watched: Watched) -> None:
    assert {sign.rank for sign in watched.while_well[-1].processes} <= {0, 1}
    assert watched.statuses == [0, 0]
    assert watched.at_the_end[-1].state == "ended"
    assert [one for standing in (*watched.while_well, *watched.at_the_end) for one in standing.findings] == []


def test_the_terminal_shows_each_rank_with_its_phase(watched: Watched) -> None:
    assert re.search(r"^run  running  ", watched.frame)
    for rank in (0, 1):
        assert re.search(rf"^rank {rank} +running +{BOTH} +train", watched.frame, re.MULTILINE)


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


class Dead(NamedTuple):
    """What was told of a death in step ``step`` to a receiver and a command, to one that fails, and to a browser."""

    folder: Path
    step: int
    posted: list[dict[str, Any]]
    refused: list[dict[str, Any]]
    said: dict[str, str]
    #: Two changes that a browser got before, and what one gets that comes again after the first.
    changes: list[Any]
    missed: Any
    codes: list[str]


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Dead:
    folder = tmp_path_factory.mktemp("dead")
    (folder / "note.py").write_text(
        "import os, sys, pathlib\n"
        "with pathlib.Path('noted').open('a') as file:\n"
        "    file.write(os.environ['OTEL_RL_NOTIFY_CODE'] + ' ' + sys.stdin.read() + chr(10))\n"
    )
    with ExitStack() as stack:
        taking, failing = stack.enter_context(receiver(500)), stack.enter_context(receiver(*[302] * 9))
        job = stack.enter_context(ranks(folder, DEATH, 10_000))
        awaited((folder / "otel-rl" / "run").is_dir, job)
        until_end = ("--no-page", "--until-end")
        note = ("--notify", f"{sys.executable} note.py")
        notifying = {
            name: stack.enter_context(started(folder, *options, *until_end, page=False, stderr=name))
            for name, options in {
                "taken": ("--notify", taking.address, *note),
                "refused": ("--notify", failing.address),
            }.items()
        }
        # By the time that this one has shown two changes, those above look at the run, too.
        page = stack.enter_context(started(folder))
        changes, missed = _come_again(page)
        (folder / "die").touch()
        codes = _until_death(page)
        for one in notifying.values():
            assert one.process.wait(TIMEOUT) == 0
    said = {name: (folder / name).read_text() for name in notifying}
    step = int((folder / "died").read_text())
    return Dead(folder, step, taking.taken, failing.taken, said, changes, missed, codes)


def _come_again(live: Live) -> tuple[list[Any], Any]:
    """Two changes, and the first message of a browser that has seen the first of them."""
    awaited(lambda: live.ask("run/run/")[0] == 200)
    stream = live.events("run", "?since=0")
    (_, first, seen), (_, second, _) = (next(one for one in stream if one[0] == "changes") for _ in range(2))
    stream.close()
    again = live.events("run", **{"Last-Event-ID": first})
    kind, missed, _ = next(again)
    again.close()
    return [seen, second], (kind, missed)


def _until_death(live: Live) -> list[str]:
    stream = live.events("run")
    findings = (content["status"]["findings"] for kind, _, content in stream if kind == "status")
    codes = [one["code"] for one in next(filter(None, findings))]
    stream.close()
    return codes


def test_a_death_is_posted_once_and_a_command_gets_it_too_and_the_end_ends_it(dead: Dead) -> None:
    first, second = dead.posted
    # One try more after an error, and nothing else.
    assert first == second
    assert first["code"] == "gone"
    assert first["text"].startswith("otel-rl: run: Rank 1 ")
    assert (first["run"], first["severity"], first["place"]) == ("run", "critical", f"step {dead.step} (train)")
    assert first["address"] == ""
    (noted,) = (dead.folder / "noted").read_text().splitlines()
    code, _, content = noted.partition(" ")
    assert code == "gone"
    assert json.loads(content)["text"] == first["text"]
    assert dead.said["taken"] == ""


def test_a_notification_that_fails_is_said_once_without_the_address(dead: Dead) -> None:
    assert len(dead.refused) == 2
    (line,) = dead.said["refused"].splitlines()
    assert line.startswith("otel-rl live: a notification to http://127.0.0.1 failed: the server answered 302")
    assert "SECRET" not in line


def test_a_browser_gets_steps_and_a_death_as_they_come(dead: Dead) -> None:
    assert all(dead.changes)
    assert dead.codes == ["gone"]


def test_a_browser_that_comes_again_gets_what_it_has_missed(dead: Dead) -> None:
    assert dead.missed == ("changes", dead.changes[1])
