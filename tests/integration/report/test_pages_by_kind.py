"""Each kind of program, recorded and made a page: what a reader of it sees first, and what stays folded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import trl_runs
from support.fake_openai import FakeOpenAI
from unit.report.test_report_page import Page

from otel_rl.report import write_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.report import Report

WORDS_OF_RL = "small and noisy is normal here"
#: What is folded on the page of every training.
FOLDED = {"configuration", "pressure", "processes", "telemetry", "not-in-this-run"}


def _record(directory: Path, *command: str) -> Path:
    """Run a program recorded; its data directory."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    tool = Path(sys.executable).with_name("opentelemetry-instrument")
    done = subprocess.run(
        [tool, sys.executable, *command],
        cwd=directory,
        env={**environment, "OTEL_RL_DATA_DIR": str(directory / "data")},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return directory / "data"


class KindPage:
    """A page, with the titles of its cards and of the charts that are open."""

    def __init__(self, data: Path) -> None:
        self.report: Report = write_report(data, data.parent / "page.html")
        self.page = Page(self.report.output)
        self.cards = re.findall(r'<div class="tile"><span>([^<]*)', self.page.source)
        training = re.search(r'<section id="training">(.*?)</section>', self.page.source, re.DOTALL)
        curves = training[1].partition("<details")[0] if training else ""
        self.curves = re.findall(r"<figcaption><b>([^<]*)", curves)
        self.sections = re.findall(r'<section id="([^"]*)"', self.page.source)
        self.folded = re.findall(r'<details class="part" id="([^"]*)"', self.page.source)

    def text(self, section: str) -> str:
        return re.sub(r"\s+", " ", self.page.texts.get(section, ""))


@pytest.fixture
def trained(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], KindPage]:
    """Give the page of the run of a trainer."""

    def page(name: str) -> KindPage:
        data = tmp_path / "data"
        # A page leaves what it has read beside the run.
        shutil.copytree(trl_runs.of_one_trainer(tmp_path_factory, name), data)
        return KindPage(data)

    return page


def test_of_sft_the_loss_comes_first_and_should_fall(trained: Callable[[str], KindPage]) -> None:
    page = trained("sft")
    assert page.cards == ["Length", "Steps", "Loss", "Token accuracy", "Gradient norm", "Tokens", "In steps", "Errors"]
    assert page.curves[:2] == ["Loss", "Token accuracy"]
    assert page.sections[:3] == ["training", "run_time", "steps"]
    assert "Loss should fall; flat means that nothing is learned" in page.text("training")
    assert WORDS_OF_RL not in page.page.source
    assert re.search(r"Token accuracy [\d.]+ % mean of steps 8 to 12; (no clear change since )?steps 1 to 5: [\d.]+ %",
                     page.text("tiles"))  # fmt: skip
    assert re.search(r"Tokens [\d,]+ [\d,]+ per s, after step 1 ", page.text("tiles"))
    assert set(page.folded) == FOLDED


@pytest.mark.parametrize("name", ["dpo", "kto"])
def test_of_preferences_margins_come_first(trained: Callable[[str], KindPage], name: str) -> None:
    page = trained(name)
    pairs = ["Accuracy"] if name == "dpo" else []
    assert page.cards[2:] == [
        "Margin", *pairs, "Chosen reward", "Rejected reward", "Loss", "Tokens", "In steps", "Errors",
    ]  # fmt: skip
    assert page.curves[0] == "Margin"
    assert page.curves.index("Rewards of chosen and rejected") < page.curves.index("Loss")
    assert "chosen minus rejected; should rise" in page.text("training")
    assert WORDS_OF_RL not in page.page.source


def test_of_a_reward_model_the_accuracy_comes_first(trained: Callable[[str], KindPage]) -> None:
    page = trained("reward")
    assert page.cards[2:5] == ["Accuracy", "Margin", "Loss"]
    assert "share of pairs whose chosen answer scores higher; 0.5 is a guess" in page.text("training")
    assert "Loss should fall; 0.69 is a guess" in page.text("training")


def test_of_rl_the_reward_comes_first_and_tokens_that_taught_nothing_are_on_top(
    trained: Callable[[str], KindPage],
) -> None:
    page = trained("grpo")
    assert page.cards[2:4] == ["Tokens that taught something", "Reward"]
    assert {"Entropy", "Loss"} <= set(page.cards)
    assert page.curves[0] == "Reward"
    assert page.sections[:4] == ["run_time", "steps", "states", "training"]
    assert WORDS_OF_RL in page.text("training")
    [idle] = [one for one in page.report.overview.findings if one.code == "idle_tokens"]
    assert re.fullmatch(
        r"7\d % of the \d+ tokens that were trained on had advantage 0 and taught nothing of the reward: "
        r"in 9 of 12 groups all rewards are equal\.", idle.text,
    )  # fmt: skip
    assert "No signal" not in page.text("findings").partition("nothing found:")[2].partition(".")[0]


def test_a_trainer_without_an_algorithm_is_supervised(trained: Callable[[str], KindPage]) -> None:
    page = trained("transformers")
    assert page.curves[0] == page.cards[2] == "Loss"
    assert "Loss should fall; flat means" in page.text("training")
    assert set(page.folded) == {*FOLDED, "checkpoints"}


def test_an_own_loop_that_logs_a_loss_is_not_told_what_the_loss_should_do(tmp_path: Path) -> None:
    program = "import otel_rl\nfor step in range(1, 13):\n  with otel_rl.step(step): otel_rl.metric('loss', 1 / step)\n"
    page = KindPage(_record(tmp_path, "-c", program))
    assert page.cards == ["Length", "Steps", "Loss", "In steps", "Errors"]
    assert "Loss what it should do depends on the algorithm" in page.text("training")


def test_of_a_script_of_model_calls_only_the_calls_are_open(tmp_path: Path) -> None:
    program = """
import openai, sys
client = openai.OpenAI(base_url=sys.argv[1], api_key="none")
for _ in range(3):
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
"""
    with FakeOpenAI() as server:
        page = KindPage(_record(tmp_path, "-c", program, server.base_url))
    assert page.cards == ["Length", "Model calls", "Model latency", "Model tokens", "In calls", "Errors"]
    assert page.sections == ["models", "run_time", "rest"]
    assert page.folded == ["pressure", "processes", "telemetry", "not-in-this-run"]
    summary: Any = re.search(r"<b>Not in this run</b>: ([^<]*)", page.page.source)
    assert "training curves" in summary[1]
    unchanged = r"(Rollouts|Samples) come from [^;]*?OTEL_RL_ROLLOUT_FUNCTIONS names"
    assert re.findall(unchanged, page.text("not-in-this-run")) == ["Rollouts", "Samples"]
    assert "wait for an import" in page.text("telemetry")
