"""The list of runs in a browser: it follows the folder, and leaves alone what a reader is doing."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from integration.live.live_command import awaited, started
from integration.report.browser import EXECUTABLE, Browser
from unit.report.synthetic_run import GrpoRun

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium on PATH (Debian: apt-get install chromium)")

#: What happens every 15 s, at once.
REFRESH = """
new Promise((done) => {
  document.addEventListener("list-refreshed", done, { once: true });
  document.dispatchEvent(new Event("visibilitychange"));
}).then(() => document.querySelectorAll("tbody tr").length)
"""
FIELD = "document.querySelector('input[name=q]')"
LOST = "document.querySelector('.lost').textContent"


def test_a_new_run_appears_while_what_is_typed_and_the_focus_stay(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "otel-rl", steps=4).write()
    shutil.copytree(run, run.with_name("second"))
    with started(tmp_path) as live, Browser() as browser:
        browser.call("Page.navigate", url=live.address)
        browser.wait_for("document.readyState === 'complete' && document.querySelectorAll('tbody tr').length === 2")
        browser.evaluate(f"{FIELD}.value = 'gr'; {FIELD}.focus()")
        shutil.copytree(run, run.with_name("third"))
        assert awaited(lambda: browser.evaluate(REFRESH) == 3)
        assert browser.evaluate("document.querySelector('h2').textContent") == "3 runs"
        assert browser.evaluate(f"document.activeElement === {FIELD} && {FIELD}.value") == "gr"
        browser.evaluate("document.querySelector('a[href*=second]').focus()")
        browser.evaluate(REFRESH)
        assert browser.evaluate("document.activeElement.textContent") == "second"
        assert browser.evaluate(LOST) == ""
        assert browser.problems == []
        live.stop()
        assert browser.evaluate(REFRESH) == 3
        assert "does not answer" in browser.evaluate(LOST)
