"""axe-core, which checks a page for what keeps people out; it comes with a package of the test group."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integration.report.browser import Browser

#: Name of the rule and what breaks it, one a line. Further rows of a table are like its first ones, and what is inside
#: of a chart is Bokeh's; both take most of the time.
_RUN = """
axe.run(
  { exclude: [["tbody tr:nth-child(n + 4)"], [".plot"]] },
  { resultTypes: ["violations"], preload: false, ...OPTIONS },
).then((found) => found.violations.flatMap((rule) => rule.nodes.map(
  (node) => `${rule.id} (${rule.impact}): ${node.target.join(" ")}: ${node.failureSummary}`)))
"""
#: All that the dark changes.
_COLOURS = """{ runOnly: ["color-contrast"] }"""


@cache
def _source() -> str:
    found = importlib.util.find_spec("axe_core_python")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).with_name("axe.min.js").read_text()


def violations(browser: Browser) -> list[str]:
    """What axe finds wrong with the page as it is, in the light and in the dark."""
    browser.evaluate(f"{_source()}; 0")
    found = _run(browser, "{}")
    browser.dark()
    browser.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    found += [f"in the dark: {one}" for one in _run(browser, _COLOURS)]
    browser.dark(False)
    return found


def _run(browser: Browser, options: str) -> list[str]:
    found: list[str] = browser.evaluate(_RUN.replace("OPTIONS", options))
    return found
