"""Whom a rank waits for beyond other ranks: calls of its rollouts, joined across processes."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from otel_rl.flight_recorder import layout, waiting
from otel_rl.flight_recorder.reader import read
from otel_rl.flight_recorder.ring import create
from otel_rl.flight_recorder.waiting import WaitingCall, WaitingCalls
from otel_rl.live import hanging_calls
from otel_rl.live.standing import LiveFinding
from otel_rl.process import lifetime, listeners
from otel_rl.ranks.postmortem import chain_text, examine, rings
from otel_rl.ranks.postmortem.chains import WaitChain, find_chains
from otel_rl.ranks.postmortem.ranks import RankState, state_of
from otel_rl.report.core.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWN = lifetime.own()
#: Noon of a day, in ns.
NOON = 1_800_014_400_000_000_000
SECOND = 1_000_000_000


def _process(pid: int, *calls: WaitingCall, ancestors: tuple[int, ...] = (), rank: int | None = None) -> WaitingCalls:
    return WaitingCalls(OWN._replace(pid=pid, start_ticks=pid), "run", "host", rank, ancestors, NOON, 0, calls)


def _call(name: str, seconds: int = 100, **values: Any) -> WaitingCall:
    moment = NOON - seconds * SECOND
    return WaitingCall(**{"kind": "tool", "name": name, "trace": "t", "began": moment, "since": moment, **values})


@pytest.fixture
def rank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RankState]:
    """This process: rank 0 in the phase `sample` of step 3, or in the one that a test asks for."""
    ring = create(tmp_path, "otel-rl-run-host-rank0-1")
    ring.identify("run", "0.0.0", "host", (0, 2, 0))
    handles = [ring.begin(layout.STEP, "", 3), ring.begin(layout.PHASE, getattr(request, "param", "sample"))]
    yield state_of(read(ring.path))
    for handle in handles:
        ring.end(handle)


def _own(*calls: WaitingCall) -> WaitingCalls:
    return WaitingCalls(OWN, "run", "host", 0, (), NOON, 0, calls)


def _sentences(chains: list[WaitChain]) -> list[str]:
    return [chain_text.sentence(chain, NOON) for chain in chains]


def test_a_rank_waits_for_the_tool_of_its_rollout(rank: RankState) -> None:
    call = _call("run_sandbox", 120, rollout="r-7", function="sandbox.run", file="/a/sandbox.py", line=12, hangs=True)
    assert _sentences(find_chains([rank], [_own(call)])) == [
        (
            "rank 0 waits in `sample` of step 3 for rollout r-7, which waits in tool `run_sandbox`,"
            " in sandbox.run (sandbox.py:12), since 11:58:00 UTC (120 s)"
        )
    ]


def test_a_call_that_hangs_comes_before_one_that_is_only_longer_and_the_others_are_counted(rank: RankState) -> None:
    calls = [_call("build", 500), _call("run_sandbox", 120, rollout="r-7", hangs=True), _call("search", 20)]
    (sentence,) = _sentences(find_chains([rank], [_own(*calls)]))
    assert "tool `run_sandbox` since 11:58:00 UTC (120 s); it waits for 2 more" in sentence


def test_a_call_outside_of_rollouts_is_the_ranks_own_or_that_of_a_worker(rank: RankState) -> None:
    worker = _process(4712, _call("build"), ancestors=(OWN.pid,))
    assert (
        "of step 3, where it waits in tool `build` since" in _sentences(find_chains([rank], [_own(_call("build"))]))[0]
    )
    assert "of step 3, where process 4712 waits in tool `build` since" in _sentences(find_chains([rank], [worker]))[0]


def test_a_worker_belongs_to_the_nearest_rank_above_it(rank: RankState) -> None:
    worker = _process(4712, _call("run_sandbox", rollout="r-7"), ancestors=(4700, OWN.pid, 1))
    (chain,) = find_chains([rank], [worker])
    assert chain.rank is rank
    assert "for rollout r-7, which in process 4712 waits in tool `run_sandbox`" in _sentences([chain])[0]


def test_a_process_of_nobody_has_a_sentence_only_where_it_hangs(rank: RankState) -> None:
    long = _process(4712, _call("search", rollout="r-7"), ancestors=(1,))
    hangs = _process(4713, _call("run_sandbox", rollout="r-8", hangs=True), ancestors=(1,))
    assert _sentences(find_chains([rank], [long, hangs])) == [
        "process 4713, in rollout r-8, waits in tool `run_sandbox` since 11:58:20 UTC (100 s)"
    ]


def test_a_request_below_a_calls_span_is_what_it_waits_for_and_the_servers_tool_behind_that(rank: RankState) -> None:
    asks = _call("sandbox", kind="service", span="a", address="10.0.0.7", port=80, rollout="r-7", tool="run_sandbox")
    answers = _call("POST /run", kind="request", span="b", parent="a")
    runs = _call("docker", 90, span="c", parent="b")
    (chain,) = find_chains([rank], [_own(asks), _process(4711, answers, runs)])
    assert _sentences([chain]) == [
        (
            "rank 0 waits in `sample` of step 3 for rollout r-7, which waits for service `sandbox` at 10.0.0.7:80"
            " inside tool `run_sandbox`, where process 4711 answers `POST /run`, which waits in tool `docker`"
            " since 11:58:30 UTC (90 s)"
        )
    ]


def test_spans_of_others_between_client_and_engine_are_bridged_by_the_trace(rank: RankState) -> None:
    asks = _call("chat m", kind="model", span="a", address="10.0.0.7", port=80, rollout="r-7")
    answers = _call("chat m", 99, kind="engine", span="c", parent="of another")
    parallel = _call("search", 98, span="d", parent="rollout")
    worker = _process(4712, parallel, ancestors=(OWN.pid,))
    (chain,) = find_chains([rank], [_own(asks), _process(4711, answers), worker])
    assert [link.process.lifetime.pid for link in chain.links] == [OWN.pid, 4711]


def test_requests_of_a_server_that_a_rank_has_started_are_not_what_it_waits_for(rank: RankState) -> None:
    server = _process(4711, _call("POST /run", kind="request", span="b", parent="of somebody"), ancestors=(OWN.pid,))
    assert find_chains([rank], [server]) == []


def test_spans_that_name_each_other_end_the_chain(rank: RankState) -> None:
    first, second = _call("one", span="a", parent="b"), _call("two", span="b", parent="a")
    outer = _call("outer", span="c", parent="")
    inner = _call("one", span="a", parent="c")
    assert find_chains([rank], [_own(first, second)]) == []
    (chain,) = find_chains([rank], [_own(outer, inner)])
    assert [link.call.name for link in chain.links] == ["outer", "one"]


@pytest.mark.parametrize("rank", ["train"], indirect=True)
def test_a_call_that_the_rank_does_not_wait_for_is_open_meanwhile(rank: RankState) -> None:
    ahead = _call("chat m", 12, kind="model", rollout="r-40")
    worker = _process(4712, _call("search", 20, rollout="r-41"), ancestors=(OWN.pid,))
    assert _sentences(find_chains([rank], [_own(ahead), worker])) == [
        (
            "rank 0 is in `train` of step 3; meanwhile rollout r-41 in process 4712 waits in tool `search`"
            " since 11:59:40 UTC (20 s); 1 more is open"
        )
    ]


@pytest.mark.parametrize("rank", ["train"], indirect=True)
def test_a_call_of_the_steps_own_thread_is_what_the_rank_waits_for_in_every_phase(rank: RankState) -> None:
    own, ahead = _call("run_sandbox", 20, rollout="r-7", in_step=True), _call("chat m", 12, kind="model")
    waits, meanwhile = find_chains([rank], [_own(own, ahead)])
    assert _sentences([waits])[0].startswith("rank 0 waits in `train` of step 3 for rollout r-7, which waits in tool")
    assert (meanwhile.is_meanwhile, meanwhile.end.call.name) == (True, "chat m")


@pytest.mark.parametrize("rank", ["train"], indirect=True)
def test_on_the_live_page_a_rank_is_not_late_for_a_call_that_it_does_not_wait_for(rank: RankState) -> None:
    late = LiveFinding("late_rank", Severity.CRITICAL, "Rank 0 is late", "Rank 0 is late.", [0])
    ahead, own = _call("chat m", rollout="r-40", hangs=True), _call("search", rollout="r-7", hangs=True, in_step=True)
    for call, explained in ((ahead, False), (own, True)):
        (chain,) = find_chains([rank], [_own(call)])
        finding = hanging_calls.finding(chain, NOON, 1e-9)
        assert (finding.severity is Severity.CRITICAL) is explained
        assert (late not in hanging_calls.explain([late], [finding])) is explained


@pytest.mark.parametrize("of", ["this process", "another machine", "a process that is gone"])
def test_who_listens_is_looked_for_only_where_the_caller_runs_on_this_machine(rank: RankState, of: str) -> None:
    lifetimes = {"another machine": OWN._replace(boot_id="another"), "a process that is gone": OWN._replace(pid=4711)}
    with socket.create_server(("127.0.0.1", 0)) as server:
        asks = _call("chat m", kind="model", hangs=True, address="127.0.0.1", port=server.getsockname()[1])
        (chain,) = find_chains([rank], [replace(_own(asks), lifetime=lifetimes.get(of, OWN))])
    assert (chain.listener is not None) is (of == "this process")


def _worker(folder: Path, ancestors: tuple[int, ...] = (OWN.pid,)) -> WaitingCalls:
    """A killed process below this one has left its list in ``folder``."""
    killed = _process(4712, _call("run_sandbox", rollout="r-7", hangs=True), ancestors=ancestors)
    waiting.write(folder / f"otel-rl-run-host-pid{killed.lifetime.pid}-1.waits", killed)
    return killed


def test_no_rank_that_runs_waits_for_a_process_that_is_gone(rank: RankState, tmp_path: Path) -> None:
    _worker(tmp_path)
    found = examine(tmp_path, tmp_path)
    assert (found.is_running, found.chains) == (True, [])
    assert rank.is_alive


def test_of_a_run_that_is_over_the_postmortem_says_what_had_waited_and_who_is_gone(tmp_path: Path) -> None:
    ring = create(tmp_path, "otel-rl-run-host-rank0-1")
    ring.identify("run", "0.0.0", "host", (0, 2, 0))
    gone = OWN._replace(pid=4711, start_ticks=1)
    layout.LIFETIME.pack_into(
        ring.buffer, layout.LIFETIME_AT, gone.pid, gone.start_ticks, gone.pid_namespace, gone.boot_id.encode()
    )
    handles = [ring.begin(layout.STEP, "", 3), ring.begin(layout.PHASE, "sample")]
    _worker(tmp_path, ancestors=(gone.pid,))
    found = examine(tmp_path, tmp_path)
    (sentence,) = _sentences(found.chains)
    assert not found.is_running
    assert sentence.startswith(
        "rank 0 had waited in `sample` of step 3 for rollout r-7, which in process 4712 had waited in tool"
    )
    assert sentence.endswith("; process 4712 is gone")
    del handles


def test_lists_of_earlier_attempts_are_left_out(tmp_path: Path) -> None:
    for attempt, pid in (("0.0.0", 4711), ("0.1.0", 4713)):
        ring = create(tmp_path, f"otel-rl-run-host-rank{pid}-1")
        ring.identify("run", attempt, "host", (0, 2, 0))
        layout.LIFETIME.pack_into(ring.buffer, layout.LIFETIME_AT, pid, pid, OWN.pid_namespace, OWN.boot_id.encode())
        hangs = _process(pid, _call(f"tool_{pid}", hangs=True))
        waiting.write(tmp_path / f"otel-rl-run-host-pid{pid}-1.waits", hangs)
    (chain,) = examine(tmp_path, tmp_path).chains
    assert chain.end.call.name == "tool_4713"


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = _own(_call("run_sandbox", rollout="r-7", hangs=True))
    path = tmp_path / "otel-rl-run-host-rank0-1.waits"
    waiting.write(path, written)
    assert waiting.read_all([path], {os.geteuid()}) == [written]
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_stamp_says_until_when_a_list_was_true_and_changes_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "otel-rl-run-host-rank0-1.waits"
    waiting.write(path, _own(_call("run_sandbox")))
    before = path.read_text()
    waiting.stamp(path, NOON + 70 * SECOND)
    (stamped,) = waiting.read_all([path], {os.geteuid()})
    assert (stamped, stamped.seen) == (_own(_call("run_sandbox")), NOON + 70 * SECOND)
    assert before.replace(str(NOON), "") == path.read_text().replace(str(NOON + 70 * SECOND), "").replace(str(NOON), "")


def test_a_wait_that_a_kill_has_ended_lasted_until_its_process_was_seen_last(tmp_path: Path) -> None:
    seen = replace(_own(_call("run_sandbox", 100)), seen=NOON + 5 * SECOND)
    (chain,) = find_chains([], [replace(seen, calls=(replace(seen.calls[0], hangs=True),))])
    chain.fate = "rank 0 is gone"
    # Another process of the run wrote later.
    assert " (at least 105 s)" in chain_text.sentence(chain, NOON + 900 * SECOND)


def test_of_a_list_and_its_copy_the_newer_one_counts(tmp_path: Path) -> None:
    old, new = _own(_call("search")), WaitingCalls(OWN, "run", "host", 0, (), NOON + 1)
    waiting.write(tmp_path / "copy", old)
    waiting.write(tmp_path / "list", new)
    assert waiting.read_all([tmp_path / "list", tmp_path / "copy"], {os.geteuid()}) == [new]


def test_what_is_no_list_is_left_out_and_names_cannot_move_a_cursor(tmp_path: Path) -> None:
    path = tmp_path / "list"
    waiting.write(path, _own(_call("\x1b[2Jsearch")))
    content = json.loads(path.read_text())
    damaged = {
        "empty": "",
        "text": "none",
        "number": "1",
        "version": json.dumps({**content, "version": 99}),
        "calls": json.dumps({**content, "calls": [{"began": "now"}]}),
        "lifetime": json.dumps({**content, "lifetime": ["boot"]}),
        "long": json.dumps({**content, "more": "9" * 400_000}),
    }
    for name, text in damaged.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (read_one,) = waiting.read_all(sorted(tmp_path.iterdir()), {os.geteuid()})
    assert read_one.calls[0].name == "\N{REPLACEMENT CHARACTER}[2Jsearch"
    assert waiting.read_all([path], {os.geteuid() + 1}) == []


def test_only_lists_of_the_run_are_read(tmp_path: Path) -> None:
    other = _process(4712).lifetime
    waiting.write(tmp_path / "otel-rl-run-host-1.waits", _own(_call("search")))
    waiting.write(tmp_path / "otel-rl-run-2-host-1.waits", WaitingCalls(other, "run-2", "host", 0, (), NOON, 0))
    (found,) = rings.waiting_calls(tmp_path, tmp_path, "run")
    assert found.run_id == "run"


def test_the_process_that_listens_on_this_machine_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = listeners.find_listener("127.0.0.1", port)
        assert found is not None
        assert (found.pid, found.is_stopped) == (os.getpid(), False)
        assert listeners.find_listener("10.0.0.7", port) is None
    assert listeners.find_listener("127.0.0.1", port) is None
