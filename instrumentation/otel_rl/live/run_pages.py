"""The page with the list of runs, and the one that says in words what is wrong."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from otel_rl.live import run_index
from otel_rl.report.core import human
from otel_rl.store.reader import run_rows
from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from jinja2 import Template

    from otel_rl.live.run_index import ListedRun
    from otel_rl.store.reader.run_rows import RunRow

#: Rows of one page.
ROWS = 50
#: Pages around the shown one that have a link.
_NEAR = 3


class _RunLine(NamedTuple):
    """What a line says; ``finding`` is what the run died of, the worst that was found, or what could not be read."""

    name: str
    link: str
    state: str
    last_sign: str
    step: str
    reward: str
    finding: str
    severity: str
    length: str
    started: str
    program: str
    is_live: bool


class _PageLink(NamedTuple):
    """A link to another page of the list; without a link, a gap or the page itself."""

    number: int
    link: str
    is_this: bool = False


def runs(directory: str, listed: list[ListedRun], wanted: str, number: int, nonce: str) -> bytes:
    """Return page ``number`` (from 1) of the runs whose names contain ``wanted``; ``nonce`` allows its script."""
    found = [run for run in listed if wanted.lower() in run.name.lower()]
    last = max(-(-len(found) // ROWS), 1)
    number = min(max(number, 1), last)
    shown = found[(number - 1) * ROWS : number * ROWS]
    live = sum(run.is_live for run in found)
    title = f"Runs in {directory}"
    said = human.amount(len(found), "run") + (f", {human.number(live)} running" if live else "")
    return _render(
        title=title, number=said, rows=list(map(_row, shown)), pages=_links(number, last, wanted), wanted=wanted,
        is_list=True, nonce=nonce,
    )  # fmt: skip


def message(title: str, text: str, back: str = "") -> bytes:
    """Return a page that says something; ``back`` is a link to the list of runs."""
    return _render(title=title, text=text, back=back)


def _render(**values: object) -> bytes:
    empty = {"text": "", "back": "", "is_list": False, "number": "", "rows": [], "pages": [], "wanted": "", "nonce": ""}
    return _template().render({**empty, **values}).encode("utf-8", "replace")


@lru_cache(maxsize=1)
def _template() -> Template:
    loader = ChoiceLoader([PackageLoader("otel_rl.live"), PackageLoader("otel_rl.report.page")])
    options = {"autoescape": True, "undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return Environment(loader=loader, **options).get_template("runs.html.j2")  # type: ignore[arg-type]  # noqa: S701


def _row(run: ListedRun) -> _RunLine:
    try:
        row = run_index.row(run)
    except UnusableInput as error:
        row = run_rows.refused(run.path, str(error))
    return _RunLine(
        run.name,
        f"run/{quote(run.name, safe='')}/",
        row.state,
        _ago(run.last_sign) if run.last_sign else human.UNKNOWN,
        human.number(row.step if row.step is not None else row.steps),
        _reward(row),
        row.failure or row.finding or row.remark,
        row.severity if row.finding and not row.failure else "critical" if row.failure else "",
        human.duration(row.seconds),
        human.moment(row.started),
        row.program,
        run.is_live,
    )


def _reward(row: RunRow) -> str:
    value, key = row.shown, "" if row.reward is not None else "loss "
    if value is None or value.last is None:
        return human.UNKNOWN
    of_step = "" if row.other_step is None else f" (step {row.other_step})"
    return f"{key}{human.short_number(value.last)}{of_step}"


def _ago(moment: float) -> str:
    return f"{human.duration(round(max(time.time() - moment, 0.0)))} ago"


def _links(number: int, last: int, wanted: str) -> list[_PageLink]:
    links = []
    for page in range(1, last + 1):
        if page in (1, last) or abs(page - number) <= _NEAR:
            query = urlencode({"page": page, **({"q": wanted} if wanted else {})})
            links.append(_PageLink(page, "" if page == number else f"?{query}", page == number))
        elif links and links[-1].link:
            links.append(_PageLink(0, ""))
    return links
