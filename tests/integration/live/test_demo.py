"""`otel-rl live --demo` and what a browser shows of it: a finding appears, and nothing is left of it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from integration.live.live_command import awaited, started
from integration.report.browser import EXECUTABLE, Browser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.live.live_command import Live


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


class Demo(NamedTuple):
    """The running command, the folder of its temporary files, and the ranks that it has started."""

    live: Live
    folder: Path
    temporary: Path
    ranks: set[int]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp("demo")
    temporary = folder / "temporary"
    temporary.mkdir()
    before = _ranks()
    with started(folder, "--demo", TMPDIR=str(temporary)) as live:
        yield Demo(live, folder, temporary, _ranks() - before)


@pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium on PATH (Debian: apt-get install chromium)")
def test_a_browser_shows_the_list_and_the_page_without_an_error(demo: Demo) -> None:
    live = demo.live
    with Browser() as browser:
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


def test_a_finding_appears_and_nothing_is_left_behind(demo: Demo) -> None:
    live = demo.live
    assert len(demo.ranks) == 2
    (link,) = re.findall(rb'href="run/(demo-\d+)/"', live.ask()[2])
    name = link.decode()
    assert live.ask(f"run/{name}/")[0] == 200
    events = live.events(name)
    changes = (json.dumps(content) for kind, _, content in events if kind == "changes")
    assert any(re.search("Phase [a-z]+( on rank 1)? takes|Rank 1 ", content) for content in changes)
    events.close()
    assert live.stop() == 0
    assert _ranks() & demo.ranks == set()
    assert [path for path in demo.folder.iterdir() if path.suffix == ".ring"] == []
    assert list(demo.temporary.iterdir()) == []
