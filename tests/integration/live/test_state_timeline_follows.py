"""The state timeline of a run that is being written: it grows, and what a reader has chosen stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from integration.live.page_server import PageServer
from integration.report.browser import EXECUTABLE, Browser
from unit.live.runs_in_part import STARTED, changes, collected, first_page
from unit.report.made_up_jobs import rollout
from unit.report.synthetic_run import process

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium on PATH (Debian: apt-get install chromium)")

LANES = "[...document.querySelectorAll('.lane-controls output')][0].textContent"
STEP = "document.querySelector('.lane-controls select')"
SOURCE = """
(name) => [...plots.document._all_models.values()].find((one) => one.data_source && one.name === name)?.data_source.data
"""


def _run(folder: Path, steps: int) -> Path:
    """A step every 2 s with a rollout each."""
    for rank in (0, 1):
        writer = process(folder / "run", rank, started=STARTED)
        for step in range(1, steps + 1):
            at = 2.0 * step
            if rank == 0:
                rollout(writer, step, 0, at, [("chat", 1.0, {"gen_ai.operation.name": "chat"})])
            writer.span("rl.train", at, at + 1, {"rl.phase": "train", "rl.loop.iteration": step})
            writer.span("rl.rank.step", at, at + 1.5, {"rl.loop.iteration": step})
        writer.write()
    return folder / "run"


def _show(browser: Browser, chart: str) -> None:
    """Bring a chart into view: it is made then."""
    browser.evaluate(f"document.getElementById('chart-states-{chart}').scrollIntoView({{ behavior: 'instant' }})")
    browser.wait_for(f"({SOURCE})('states-{chart}-work')?.row.length")


def test_lanes_grow_and_a_chosen_step_stays(tmp_path: Path) -> None:
    run = _run(tmp_path, 40)
    first = first_page(collected(run, 40.9))
    with Browser() as browser, PageServer(first["html"]) as server:
        browser.call("Page.navigate", url=server.url)
        browser.wait_for("document.readyState === 'complete' && typeof plots !== 'undefined'")
        _show(browser, "ranks")
        browser.wait_for("document.documentElement.dataset.states === 'drawn'")
        _show(browser, "rollouts")
        assert server.watching.wait(30)
        assert browser.evaluate(LANES).startswith("37.5 s shown")
        browser.wait_for(f"({SOURCE})('states-rollouts-work')?.row.length === 19")
        rest = changes(collected(run), first["state"])
        server.send(rest)
        browser.wait_for(f"{LANES}.startsWith('1 min 20 s shown')")
        browser.wait_for(f"({SOURCE})('states-rollouts-work').row.length === 32")
        assert max(browser.evaluate(f"({SOURCE})('states-ranks-work').right")) == 79.5
        browser.evaluate(f"{STEP}.value = '12'; {STEP}.dispatchEvent(new Event('change'))")
        browser.wait_for(f"{LANES}.startsWith('1.56 s shown')")
        server.send(changes(collected(run, 60), rest["state"]))
        browser.wait_for(f"[...{STEP}.options].every((one) => one.value !== '35')")
        assert browser.evaluate(f"{STEP}.value") == "12"
        assert browser.evaluate(LANES).startswith("1.56 s shown")
    assert browser.problems == []
