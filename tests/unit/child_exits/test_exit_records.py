"""Ends of children as lines of a file, and the counter of OOM kills. The cgroup here is a made-up directory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import popen_fork, popen_forkserver
from types import SimpleNamespace

import pytest

from otel_rl.core import guard, settings
from otel_rl.process import child_exits, exit_records, lifetime, oom_kills

WHO = lifetime.Lifetime("boot", 4711, 99, 1)


@pytest.fixture
def environ(tmp_path, monkeypatch):
    """Of a run whose folder lies on this node."""
    (tmp_path / "data" / "run").mkdir(parents=True)
    monkeypatch.setenv("OTEL_RL_RUN_ID", "run")
    monkeypatch.setenv("OTEL_RL_DATA_DIR", str(tmp_path / "data"))
    settings.reset()
    yield os.environ
    settings.reset()


def _cgroup(root, line, file, kills):
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/cgroup").write_text(f"9:cpu:/other\n{line}\n")
    file = root / "sys/fs/cgroup" / file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"low 0\noom 3\noom_kill {kills}\n")


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("0::/job", "job/memory.events"),
        ("0::/", "memory.events"),
        ("4:memory,hugetlb:/job", "memory/job/memory.oom_control"),
    ],
    ids=["version 2", "version 2 in a container", "version 1"],
)
def test_the_counter_of_both_versions_of_cgroups_is_read(tmp_path, line, file):
    _cgroup(tmp_path, line, file, 2)
    assert oom_kills.counted(tmp_path) == 2


def test_without_a_counter_the_number_is_not_known(tmp_path):
    assert oom_kills.counted(tmp_path) is None
    _cgroup(tmp_path, "0::/job", "elsewhere", 2)
    assert oom_kills.counted(tmp_path) is None
    (tmp_path / "sys/fs/cgroup/job").mkdir()
    (tmp_path / "sys/fs/cgroup/job/memory.events").write_text("oom_kill\noom_kill many\n")
    assert oom_kills.counted(tmp_path) is None


@pytest.mark.parametrize(
    ("status", "kills", "words"),
    [
        (-9, 1, "killed by SIGKILL; the cgroup counted one OOM kill in that time (reported by x, pid 1)"),
        (-9, 2, "killed by SIGKILL; the cgroup counted 2 OOM kills in that time (reported by x, pid 1)"),
        (-9, 0, "killed by SIGKILL (reported by x, pid 1)"),
        (-9, None, "killed by SIGKILL (reported by x, pid 1)"),
        (-15, 1, "killed by SIGTERM (reported by x, pid 1)"),
        (-250, None, "killed by signal 250 (reported by x, pid 1)"),
        (3, 1, "exited with status 3 (reported by x, pid 1)"),
    ],
)
def test_the_words_name_the_signal_or_the_status_and_an_oom_kill_beside_a_sigkill(status, kills, words):
    assert exit_records.Exit("run", WHO, status, None, "x", 1, "host", 0, kills).words == words


def test_what_was_written_is_read_again_and_only_its_owner_can(environ, tmp_path):
    written = [exit_records.make(WHO, status, 1, "x", None) for status in (0, -9)]
    for one in written:
        exit_records.write(one)
    (path,) = (tmp_path / "data/run").iterdir()
    assert list(exit_records.read(path)) == written
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "1", "{}", '{"lifetime": 3}', '{"lifetime": [1, 2, 3, 4], "status": "x"}']
)
def test_lines_that_make_no_sense_are_left_out(environ, tmp_path, line):
    exit_records.write(exit_records.make(WHO, 3, None, "x", None))
    (path,) = (tmp_path / "data/run").iterdir()
    path.write_text(f"{line}\n{path.read_text()}{line}")
    assert [found.status for found in exit_records.read(path)] == [3]


def test_a_run_without_a_folder_and_without_rings_gets_no_file(environ, tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RUN_ID", "another")
    monkeypatch.setenv("OTEL_RL_RING_DIR", str(tmp_path))
    monkeypatch.setenv("OTEL_RL_RING", "off")
    settings.reset()
    exit_records.write(exit_records.make(WHO, 3, None, "x", None))
    assert not list(tmp_path.glob("**/*.exits"))
    monkeypatch.setenv("OTEL_RL_RING", "on")
    settings.reset()
    exit_records.write(exit_records.make(WHO, 3, None, "x", None))
    assert len(list(tmp_path.glob("otel-rl-another-*.exits"))) == 1


def test_a_link_that_somebody_else_put_there_is_not_followed(environ, tmp_path):
    one = exit_records.make(WHO, 3, None, "x", None)
    exit_records.write(one)
    (path,) = (tmp_path / "data/run").iterdir()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        exit_records.write(one)
    assert not (tmp_path / "elsewhere").exists()


def test_a_child_that_has_ended_still_has_its_lifetime_until_its_parent_waits():
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    running = lifetime.child_lifetime(child.pid)
    assert running.start_ticks
    assert lifetime.is_alive(running)
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert lifetime.child_lifetime(child.pid) == running
    assert not lifetime.is_alive(running)
    child.wait()
    assert lifetime.child_lifetime(child.pid).start_ticks == 0


def test_the_end_of_a_child_says_how_many_oom_kills_came_since_the_end_before(environ, monkeypatch):
    counts, seen = iter([5, 6, 6]), []
    monkeypatch.setattr(oom_kills, "counted", lambda: next(counts))
    exits = child_exits.ChildExits()
    exits.report = seen.append
    exits._begun(os.getpid())
    for _ in range(2):
        exits._record(WHO, -signal.SIGKILL, None, "x")
    assert [one.oom_kills for one in seen] == [1, 0]


def test_modules_are_followed_once_however_often_that_is_asked_for(monkeypatch):
    callbacks = {}
    monkeypatch.setattr(child_exits.hooks, "after_import", callbacks.__setitem__)
    monkeypatch.setattr(popen_fork.Popen, "poll", popen_fork.Popen.poll)
    monkeypatch.setattr(popen_fork.Popen, "__init__", popen_fork.Popen.__init__)
    exits = child_exits.ChildExits()
    exits.watch()
    exits.watch()
    assert callbacks.keys() == {child_exits.ELASTIC, *child_exits.MULTIPROCESSING}
    callbacks[popen_fork.__name__](popen_fork)
    followed = popen_fork.Popen.poll
    exits.follow(popen_fork)
    assert popen_fork.Popen.poll is followed


def test_a_program_gets_the_status_where_ours_fails(environ, monkeypatch):
    monkeypatch.delenv("OTEL_RL_RAISE_INTERNAL_ERRORS")
    monkeypatch.setattr(popen_fork.Popen, "poll", popen_fork.Popen.poll)
    monkeypatch.setattr(popen_fork.Popen, "__init__", popen_fork.Popen.__init__)
    exits = child_exits.ChildExits()
    exits._patch_multiprocessing(popen_fork)
    monkeypatch.setattr(exits, "_record", lambda *_: 1 / 0)
    child = multiprocessing.get_context("fork").Process(target=os._exit, args=(3,))
    child.start()
    child.join()
    assert child.exitcode == 3


class _Child:
    """Stands for a Popen of multiprocessing."""

    pid = os.getpid()


@pytest.mark.parametrize(
    ("status", "of_an_executor", "is_recorded"),
    [(1, False, True), (1, True, False), (3, True, True), (-9, True, True), (0, False, False), (-15, False, False)],
)
def test_an_end_of_a_child_is_recorded_unless_pools_end_so(environ, status, of_an_executor, is_recorded):
    exits, seen = child_exits.ChildExits(), []
    exits.report = seen.append
    child = _Child()
    exits._note(child)
    if of_an_executor:
        exits._of_threads.add(child)
    exits._ended(child, status)
    assert [one.status for one in seen] == ([status] if is_recorded else [])


def test_an_end_that_the_parent_asked_for_is_written_for_its_run_and_is_no_event(environ, monkeypatch, tmp_path):
    monkeypatch.setattr(popen_fork.Popen, "poll", popen_fork.Popen.poll)
    monkeypatch.setattr(popen_fork.Popen, "__init__", popen_fork.Popen.__init__)
    monkeypatch.setattr(popen_fork.Popen, "terminate", popen_fork.Popen.terminate)
    exits, seen, written = child_exits.ChildExits(), [], []
    exits.report = seen.append
    monkeypatch.setattr(exit_records, "write", written.append)
    exits.follow(popen_fork)
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    child.start()
    child.terminate()
    child.join()
    assert [(one.status, one.is_asked_for) for one in written] == [(-15, True)]
    assert seen == []


class _Agent:
    """Stands for ``PContext`` of torchrun's agent, with a child that exits with 3."""

    def __init__(self):
        child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
        self.subprocess_handlers = {0: SimpleNamespace(proc=child)}
        self.envs = {0: {"RANK": "7"}}

    def start(self):
        return "started"

    def wait(self):
        return self.subprocess_handlers[0].proc.wait()

    def close(self):
        raise RuntimeError("of the agent")


@pytest.fixture
def agent(monkeypatch):
    """An agent that a new object of ours watches, and what that object reports."""
    patched = type("PContext", (_Agent,), {})
    exits, seen = child_exits.ChildExits(), []
    exits.report = seen.append
    exits._patch_agent(SimpleNamespace(PContext=patched))
    return patched(), seen, exits


def test_the_agents_calls_return_and_raise_what_they_did_and_each_end_is_recorded_once(environ, agent):
    context, seen, _ = agent
    assert context.start() == "started"
    assert context.wait() == 3
    assert context.wait() == 3
    with pytest.raises(RuntimeError, match="of the agent"):
        context.close()
    (found,) = seen
    assert (found.status, found.rank, found.reported_by) == (3, 7, "torchrun's agent")
    assert found.lifetime.start_ticks


def test_the_agent_works_where_ours_fails(environ, agent, monkeypatch):
    monkeypatch.delenv("OTEL_RL_RAISE_INTERNAL_ERRORS")
    context, seen, exits = agent
    monkeypatch.setattr(exits, "_begun", lambda *_: 1 / 0)
    assert (context.start(), context.wait()) == ("started", 3)
    assert seen == []


def test_a_pipe_that_somebody_has_put_there_does_not_stop_the_parent(environ, tmp_path):
    one = exit_records.make(WHO, 3, None, "x", None)
    exit_records.write(one)
    (path,) = (tmp_path / "data/run").iterdir()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match=r"No such device|no ordinary file"):
        exit_records.write(one)


def test_a_file_system_that_does_not_answer_holds_the_parent_for_a_bounded_time(environ, monkeypatch):
    release, written = threading.Event(), threading.Event()

    def write(_):
        release.wait(60)
        written.set()

    monkeypatch.setattr(exit_records, "write", write)
    monkeypatch.setattr(child_exits, "DEADLINE", 0.05)
    seen = []
    exits = child_exits.ChildExits()
    exits.report = seen.append
    exits._begun(os.getpid())

    exits._record(WHO, 3, None, "x")

    # The write is still held when the parent goes on.
    assert len(seen) == 1
    assert not written.is_set()
    release.set()
    assert written.wait(60)


def test_a_launch_by_the_fork_server_that_fails_is_no_error_of_ours(environ, monkeypatch):
    for name in ("poll", "_launch"):
        monkeypatch.setattr(popen_forkserver.Popen, name, getattr(popen_forkserver.Popen, name))
    exits = child_exits.ChildExits()
    exits.follow(popen_forkserver)
    guard.reset_counts()

    def refuse(*_):
        raise ConnectionRefusedError

    monkeypatch.setattr(popen_forkserver.forkserver, "connect_to_new_process", refuse)
    with pytest.raises(ConnectionRefusedError):
        multiprocessing.get_context("forkserver").Process(target=os.getpid).start()
    assert guard.error_counts() == {}
    assert not exits._children
