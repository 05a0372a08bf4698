"""The views of the tour: each is opened as a user would, and gives its text, its picture and what axe finds in it."""

from __future__ import annotations

import base64
import io
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from integration.export.perfetto import Perfetto
from integration.live import tour_job
from integration.live.live_command import awaited, started
from integration.report import axe
from integration.report.browser import Browser
from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI

from otel_rl.export import export_trace
from otel_rl.export.excerpt import RunExcerpt
from otel_rl.live import terminal
from otel_rl.report import write_report

if TYPE_CHECKING:
    from pathlib import Path

    from integration.live.live_command import Live

WIDTH = 1120
#: Colours of a picture: as many as a palette has.
_COLOURS = 256
#: Of the terminal that fills the picture.
_COLUMNS = 118
#: Stands for the folder of the runs, which is a temporary one.
_FOLDER = "~/grpo/otel-rl"
#: Steps that are to be seen before a rank is late.
_STEPS = 20
#: Text that is within the picture, of what is drawn with markup.
_TEXT = """
(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [], range = new Range();
  while (walker.nextNode()) {
    if (!walker.currentNode.parentElement.checkVisibility() || !walker.currentNode.data.trim()) continue;
    range.selectNodeContents(walker.currentNode);
    const { top, bottom } = range.getBoundingClientRect();
    if (bottom > 0 && top < innerHeight) found.push(walker.currentNode.data.trim());
  }
  return found.join(" ").replace(/\\s+/g, " ");
})()
"""
#: Begin and end of a few steps before that.
_SHOWN = f"""
SELECT min(ts) AS start, max(ts + dur) AS end FROM slice
WHERE category = 'step' AND extract_arg(arg_set_id, 'args.rl.loop.iteration') BETWEEN {_STEPS - 4} AND {_STEPS - 2}
"""  # noqa: S608 - ours
_TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 16px 20px; background: #16181d; color: #e4e6ea }}
pre {{ margin: 0; font: 15px/1.35 "DejaVu Sans Mono", monospace }}
{stylesheet}</style><pre>{code}</pre>"""


@dataclass
class View:
    """What was seen of a page."""

    text: str
    picture: bytes
    violations: list[str] = field(default_factory=list)


def make_all(folder: Path, *, with_axe: bool = False) -> dict[str, View]:
    """Run the job and look at it; views by the name of their picture.

    axe takes longer than all else, and the rank is late for as long: pictures to keep are made without it.
    """
    with ExitStack() as stack:
        job = stack.enter_context(tour_job.running(folder))
        live = stack.enter_context(started(folder))
        browser = stack.enter_context(Browser(width=WIDTH))
        browser.call("Emulation.setScrollbarsHidden", hidden=True)
        views = _while_it_runs(job, live, browser, with_axe)
        job.end()
        views["report"] = _report(browser, job)
    views["perfetto"] = _perfetto(job, folder)
    return views


def _while_it_runs(job: tour_job.Job, live: Live, browser: Browser, with_axe: bool) -> dict[str, View]:
    job.await_the_others()
    awaited(lambda: tour_job.RUN in live.ask()[2].decode())
    browser.call("Page.navigate", url=f"{live.address}run/{tour_job.RUN}/")
    browser.wait_for("document.readyState === 'complete' && typeof plots !== 'undefined'")
    browser.wait_for(f"Number(/[0-9]+/.exec(document.querySelector('.live .step').textContent)) > {_STEPS}")
    browser.wait_for("document.getElementById('states') && document.body.innerText.includes('Tool python fails')")
    views = {"live": _view(browser, 1120)}
    views["state-timeline"] = _state_timeline(browser)
    job.make_a_rank_late()
    browser.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    browser.wait_for("document.querySelector('.now li')")
    views["late-rank"] = _view(browser, 520)
    if with_axe:
        views["late-rank"].violations = axe.violations(browser)
    views["top"] = _top(browser, job)
    browser.call("Page.navigate", url=live.address)
    browser.wait_for("document.readyState === 'complete' && document.querySelectorAll('tbody tr').length === 3")
    # The picture does not say where it was made.
    browser.evaluate(f"document.querySelector('h1').textContent = 'Runs in {_FOLDER}'")
    views["runs"] = _view(browser, 390)
    if with_axe:
        views["runs"].violations = axe.violations(browser)
    return views


def _state_timeline(browser: Browser) -> View:
    """A step shortly before the last one that the page offers: of that a rank may not have recorded all yet."""
    browser.evaluate("document.getElementById('states').scrollIntoView({ behavior: 'instant' })")
    browser.wait_for("document.documentElement.dataset.states === 'drawn'")
    browser.evaluate(
        """(() => {
          const steps = document.querySelector(".lane-controls select");
          steps.value = [...steps.options].map((one) => Number(one.value)).filter(Boolean).sort((a, b) => b - a)[9];
          steps.dispatchEvent(new Event("change"));
        })()"""
    )
    browser.wait_for("Number(document.querySelector('.lane-controls select').value)")
    return _view(browser, 720)


def _top(browser: Browser, job: tour_job.Job) -> View:
    """What `otel-rl top` shows in a terminal, which a page of its own draws."""
    shown = terminal.RunView(job.data, tour_job.RUN, job.data.parent)
    shown.refresh(is_whole=True)
    awaited(lambda: shown.refresh(is_whole=True) or shown.view.standing.findings)
    console = Console(width=_COLUMNS, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(terminal.frame(shown.view, _COLUMNS, 30))
    file = job.data.parent / "top.html"
    file.write_text(console.export_html(theme=MONOKAI, code_format=_TERMINAL))
    browser.open(file)
    return _view(browser, browser.evaluate("Math.ceil(document.body.getBoundingClientRect().height)"))


def _report(browser: Browser, job: tour_job.Job) -> View:
    browser.open(write_report(job.run, None).output)
    return _view(browser, 860)


def _perfetto(job: tour_job.Job, folder: Path) -> View:
    """A few steps before the rank is late, with all tracks unfolded."""
    trace = folder / "perfetto.json.gz"
    export_trace(job.run, trace, RunExcerpt())
    with Perfetto(trace) as opened:
        opened.browser.wait_for("!app.isLoadingTrace && app.trace.workspace.children.length > 1")
        opened.browser.evaluate(
            f"""(async () => {{
              const shown = await app.trace.engine.query(`{_SHOWN}`), row = shown.firstRow({{}});
              app.trace.workspace.flatTracks.forEach((one) => one.expand());
              app.trace.timeline.setViewportTime(row.get("start"), row.get("end"));
            }})()"""
        )
        opened.browser.wait_for("document.body.innerText.includes('rollouts')")
        return _view(opened.browser, 760)


def _view(browser: Browser, height: int) -> View:
    """The top of the window, with as many lines of pixels."""
    browser.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=height, deviceScaleFactor=1, mobile=False)
    browser.wait_for("typeof plots === 'undefined' || plots.areDrawn !== false")
    browser.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    picture = base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"])
    return View(browser.evaluate(_TEXT), _smaller(picture))


def _smaller(picture: bytes) -> bytes:
    """The picture with few colours."""
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()
