"""The server of `otel-rl live`: who may ask, what is answered, and what happens to runs and ports beside it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
from typing import TYPE_CHECKING

import pytest
from integration.live.live_command import Live, started
from support.own_command import otel_rl
from unit.report.synthetic_run import GrpoRun

from otel_rl.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def run(folder: Path) -> str:
    written = GrpoRun(folder / "otel-rl").write()
    shutil.copytree(written, written.parent / "other")
    return written.name


@pytest.fixture(scope="module")
def live(folder: Path, run: str) -> Iterator[Live]:
    with started(folder) as running:
        yield running


def test_the_runs_of_the_folder_are_listed_with_links_to_their_pages(live: Live, run: str) -> None:
    status, _, content = live.ask()
    assert status == 200
    assert f'href="run/{run}/"'.encode() in content
    assert b'href="run/other/"' in content
    assert b"2 runs" in content


@pytest.mark.parametrize("by", ["folder", "option"])
def test_the_address_of_one_run_is_that_of_its_page(tmp_path: Path, by: str) -> None:
    run = GrpoRun(tmp_path / "otel-rl").write()
    shutil.copytree(run, run.parent / "other")
    with started(tmp_path, *([str(run)] if by == "folder" else ["--run", run.name[:-1]])) as live:
        assert live.path.endswith(f"/run/{run.name}/")
        status, _, content = live.ask()
        assert (status, b'id="first-message"' in content) == (200, True)


def test_the_page_of_a_run_is_the_whole_page_and_may_ask_for_events(live: Live, run: str) -> None:
    status, headers, content = live.ask(f"run/{run}/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=UTF-8")
    assert b"connect-src 'self'" in content
    assert b'<section id="training" data-block="section-training">' in content


def test_a_run_that_has_ended_and_was_looked_at_has_a_summary_for_lists(live: Live, folder: Path, run: str) -> None:
    live.ask(f"run/{run}/")
    summary = json.loads((folder / "otel-rl" / run / "summary.json").read_text())
    assert summary["run"]["id"] == run
    assert b">failed<" in live.ask()[2]


def test_nobody_gets_anything_without_the_token(live: Live, run: str) -> None:
    for path in ("/", f"/{'x' * 32}/", f"/{'x' * 32}/run/{run}/", f"/{'x' * 32}/run/{run}/events", "/favicon.ico"):
        status, _, content = live.ask(path)
        assert status == 404
        assert run.encode() not in content


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "10.0.0.1:8321"]
)
def test_a_name_that_is_not_this_machine_s_own_is_refused(live: Live, host: str) -> None:
    assert live.ask(Host=host)[0] == 403


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1:9000", "[::1]:9000", "LOCALHOST"])
def test_names_of_loopback_are_taken_with_any_port_as_tunnels_have_it(live: Live, host: str) -> None:
    assert live.ask(Host=host)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_it_is_read_only(live: Live, method: str) -> None:
    status, headers, _ = live.ask(method=method)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD"


def test_head_answers_like_get_without_the_content(live: Live, run: str) -> None:
    for path in ("", f"run/{run}/", f"run/{run}/events"):
        status, _, content = live.ask(path, method="HEAD")
        assert (status, content) == (200, b"")


def test_nothing_is_cached_framed_or_told_to_others(live: Live, run: str) -> None:
    for path in ("", f"run/{run}/", "/none"):
        _, headers, _ = live.ask(path)
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert not {"Set-Cookie", "Server", "Access-Control-Allow-Origin"} & set(headers)


def test_the_library_of_the_charts_is_served_and_may_be_kept(live: Live, run: str) -> None:
    status, headers, content = live.ask(f"run/{run}/bokeh.js")
    assert (status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert headers["Cache-Control"].startswith("private, max-age=")
    assert b"Bokeh" in content


def test_a_run_that_is_not_there_is_said_so_and_reaches_no_other_folder(live: Live, folder: Path) -> None:
    (folder / "secret").mkdir(exist_ok=True)
    for name in ("none", "..%2Fsecret", "%2e%2e", "%3Cscript%3E"):
        status, _, content = live.ask(f"run/{name}/")
        assert status == 404
        assert b"<script>" not in content
    status, _, content = live.ask("run/none/")
    assert b"No such run" in content
    assert live.ask("run/none/events")[0] == 204


def test_every_browser_gets_the_same_page_and_the_same_events(live: Live, run: str) -> None:
    first, second = live.ask(f"run/{run}/")[2], live.ask(f"run/{run}/")[2]
    assert first == second
    streams = [live.events(run), live.events(run)]
    kinds = [next(stream) for stream in streams]
    assert [kind for kind, _, _ in kinds] == ["status", "status"]
    assert kinds[0][2]["status"]["state"] == kinds[1][2]["status"]["state"]
    for stream in streams:
        stream.close()


def test_a_browser_that_was_away_for_long_is_told_to_load_the_page_again(live: Live, run: str) -> None:
    stream = live.events(run, **{"Last-Event-ID": "987654"})
    assert next(stream)[0] == "reload"
    stream.close()


def test_a_run_that_is_deleted_while_somebody_watches_is_said_and_the_server_stays(live: Live, folder: Path) -> None:
    assert live.ask("run/other/")[0] == 200
    stream = live.events("other")
    assert next(stream)[0] == "status"
    shutil.rmtree(folder / "otel-rl" / "other")
    status = next(content["status"] for kind, _, content in stream if content.get("status", {}).get("state") == "gone")
    assert "was deleted or moved" in status["findings"][0]["text"]
    stream.close()
    assert live.ask()[0] == 200


def test_a_folder_without_runs_is_said_and_shows_them_once_they_are_there(tmp_path: Path) -> None:
    with started(tmp_path, str(tmp_path / "otel-rl")) as live:
        assert b"No run yet" in live.ask()[2]
        assert "no run yet" in (tmp_path / "live-stderr").read_text()
        name = GrpoRun(tmp_path / "otel-rl").write().name
        assert name.encode() in live.ask()[2]


def test_an_unreadable_run_is_said_in_words(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "otel-rl").write()
    files = list(run.rglob("*.jsonl"))
    for file in files:
        file.write_bytes(b'{"half a line\n')
    with started(tmp_path) as live:
        status, _, content = live.ask(f"run/{run.name}/")
        assert status == 200
        assert f"{len(files)} lines are no JSON".encode() in content
        assert live.ask()[0] == 200


def _fails(folder: Path, *arguments: str) -> str:
    # The command takes signals for itself.
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        said = otel_rl(folder, "live", *arguments, status=2)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert said.stdout == ""
    assert len(said.stderr.splitlines()) == 1
    return said.stderr


def test_a_host_other_than_loopback_is_refused_with_how_to_reach_it(folder: Path, run: str) -> None:
    for host in ("0.0.0.0", "192.168.0.1", "example.com", "::"):  # noqa: S104 - which is refused
        said = _fails(folder, "--host", host)
        assert "ssh -L" in said
        assert host in said


def test_a_port_that_is_taken_is_an_error_where_it_was_asked_for(folder: Path, run: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "is taken" in _fails(folder, "--port", str(taken.getsockname()[1]))


@pytest.mark.parametrize("port", ["banana", "65536", "-1"])
def test_what_is_no_port_is_refused_with_what_is_one(capsys: pytest.CaptureFixture[str], port: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["live", "--port", port])
    assert f"'{port}' is no port; give a number from 0 to 65535" in capsys.readouterr().err


def test_without_a_wanted_port_the_next_free_one_is_taken_and_said(folder: Path, run: str) -> None:
    from otel_rl.live import server

    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", server.DEFAULT_PORT))
        except OSError:
            pytest.skip("the default port is taken by another program")
        taken.listen()
        _, said = server._bind("127.0.0.1", None)
    assert said == f"port {server.DEFAULT_PORT} is taken; {server.DEFAULT_PORT + 1} it is"


def test_it_has_another_token_each_time_and_ends_in_order_with_sigterm_while_a_browser_listens(
    folder: Path, live: Live, run: str
) -> None:
    with started(folder) as second:
        assert second.path != live.path
        assert len(live.path) > 30
        stream = second.events(run)
        next(stream)
        assert second.stop() == 0
        stream.close()


def test_a_list_of_1000_runs_has_pages_and_can_be_searched(tmp_path: Path) -> None:
    manifest = '{"format": "otel-rl/1", "ended_unix_nano": 5, "clean_exit": true}'
    for number in range(1000):
        process = tmp_path / "otel-rl" / f"run-{number:04}" / "p"
        process.mkdir(parents=True)
        (process / "manifest.json").write_text(manifest)
    live_run = GrpoRun(tmp_path / "otel-rl").write()
    now = time.time()
    for file in live_run.rglob("*"):
        os.utime(file, (now + 1, now + 1))
    with started(tmp_path) as live:
        content = live.ask()[2].decode()
        assert "1,001 runs" in content
        assert content.count('<a href="run/') == 50
        assert content.index(f"run/{live_run.name}/") == content.index("run/")
        assert live.ask("?page=21")[2].count(b'<a href="run/') == 1
        assert live.ask("?page=99999999999999999999")[0] == 200
        found = live.ask("?q=0711")[2]
        assert b"run/run-0711/" in found
        assert b">1 run<" in found
