"""`otel-rl live --demo` and what a browser shows of it: a finding appears, and nothing is left of it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from integration.live.live_command import awaited, started
from integration.report.browser import EXECUTABLE, Browser

if TYPE_CHECKING:
    from collections.abc import Iterator


def _ranks() -> set[int]:
    """Processes of demos that this test's process, or one below it, has started."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"otel_rl.live.demo_program" in path.read_bytes():
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "temporary"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


def test_a_finding_appears_and_nothing_is_left_behind(tmp_path: Path, temporary: Path) -> None:
    before = _ranks()
    with started(tmp_path, "--demo", TMPDIR=str(temporary)) as live:
        assert len(_ranks() - before) == 2
        (link,) = re.findall(rb'href="run/(demo-\d+)/"', live.ask()[2])
        name = link.decode()
        assert live.ask(f"run/{name}/")[0] == 200
        events = live.events(name)
        changes = (json.dumps(content) for kind, _, content in events if kind == "changes")
        assert any(re.search("Phase [a-z]+( on rank 1)? takes|Rank 1 ", content) for content in changes)
        events.close()
        assert live.stop() == 0
    assert _ranks() - before == set()
    assert [path for path in tmp_path.iterdir() if path.suffix == ".ring"] == []


@pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium on PATH (Debian: apt-get install chromium)")
def test_a_browser_shows_the_list_and_the_page_without_an_error(tmp_path: Path, temporary: Path) -> None:
    with started(tmp_path, "--demo", TMPDIR=str(temporary)) as live, Browser(tmp_path / "profile") as browser:
        browser.call("Page.navigate", url=live.address)
        browser.wait_for("document.querySelector('a[href^=\"run/\"]')")
        browser.evaluate("document.querySelector('a[href^=\"run/\"]').click()")
        browser.wait_for(
            "document.readyState === 'complete' && document.querySelector('h1') && location.pathname.includes('/run/')"
        )
        assert awaited(lambda: browser.evaluate("document.querySelectorAll('section').length")) > 2
        kind = browser.evaluate(
            "new Promise((done) => { const events = new EventSource('events'); "
            "events.addEventListener('message', (one) => { const said = JSON.parse(one.data).status; "
            "if (said) { done(said.state); events.close(); } }); })"
        )
        assert kind == "running"
        assert browser.problems == []
        assert {address.split("/")[2] for address in browser.requested if address.startswith("http")} == {
            f"127.0.0.1:{live.port}"
        }
        assert os.path.basename(live.path.rstrip("/")) not in browser.evaluate("document.referrer")  # noqa: PTH119
