"""A program whose steps are guessed numbers its log calls as it likes: they have charts and words of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.report.synthetic_run import process

from otel_rl.report.core.charts import Charts
from otel_rl.report.core.collected import Collected
from otel_rl.report.page import cards
from otel_rl.report.subjects import load, overview
from otel_rl.report.subjects.endings import result
from otel_rl.report.subjects.training import section
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.report.core.charts import Drawing

#: See `support.charts_once`.
DRAWS_ALL_CHARTS = True
STARTED = 1_700_000_000_000_000_000
UPDATES, APART = 12, 64


def _collected(tmp_path: Path, *, timesteps: bool = True, guessed: bool = True) -> Collected:
    """Return updates with values that are theirs, and after each a log call of the program by other numbers."""
    writer = process(tmp_path / "run", 0, started=STARTED)
    for step in range(1, UPDATES + 1):
        source = {"rl.loop.source": "guessed"} if guessed else {}
        of_step = {"rl.loop.iteration": step, **source}
        writer.span("rl.rank.step", step, step + 1, of_step)
        writer.event("rl.step", step, {"torch/loss": 1 / step, "environment/return_mean": 2.0 * step}, of_step)
        body = {"rollout/ep_rew_mean": 3.0 * min(step, 22 - step), "train/approx_kl": 9.0 if step > 4 else 0.01}
        body |= {"time/total_timesteps": step * APART} if timesteps else {}
        writer.event("rl.step", step + 0.5, body, {"rl.loop.iteration": step * APART})
    writer.write()
    return Collected(Reader(find_run(tmp_path / "run", None)), load()).read(lambda _: None)


def _drawn(collected: Collected) -> dict[str, Drawing]:
    blocks = section.build(collected, Charts()).blocks
    return {drawing.title: drawing for block in blocks for drawing in block.charts if not block.folded}


@pytest.mark.parametrize(("timesteps", "counts"), [(True, "timestep"), (False, "logged step")])
def test_the_reward_by_each_count_has_a_chart_with_an_axis_of_its_own(
    tmp_path: Path, *, timesteps: bool, counts: str
) -> None:
    drawn = _drawn(_collected(tmp_path, timesteps=timesteps))
    own, of_steps = drawn[f"Reward by {counts}"].model, drawn["Reward by step"].model
    assert (own.xaxis[0].axis_label, of_steps.xaxis[0].axis_label) == (counts, "step")
    assert own.x_range is not of_steps.x_range
    assert of_steps.x_range is drawn["Loss of the backward pass"].model.x_range
    assert drawn["KL divergence"].model.xaxis[0].axis_label == counts


def test_where_no_step_is_guessed_all_that_is_logged_is_by_steps(tmp_path: Path) -> None:
    drawn = _drawn(_collected(tmp_path, guessed=False))
    assert {drawing.model.xaxis[0].axis_label for drawing in drawn.values()} == {"step"}
    assert "Reward" in drawn


def test_a_trainer_that_ends_the_guessing_counts_the_steps_of_the_page(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", 0, started=STARTED)
    for step in range(1, 7):
        guessed = {"rl.loop.iteration": step, "rl.loop.source": "guessed"}
        writer.event("rl.step", step, {"torch/loss": 1 / step}, guessed)
        writer.event("rl.step", step + 10, {"loss": 1 / step}, {"rl.loop.iteration": step})
    writer.write()
    drawn = _drawn(Collected(Reader(find_run(tmp_path / "run", None)), load()).read(lambda _: None))
    assert drawn["Loss"].model.xaxis[0].axis_label == "step"


def test_cards_findings_and_the_result_say_what_they_count(tmp_path: Path) -> None:
    collected = _collected(tmp_path)
    tiles = {tile.name: tile for tile in cards.of_training(collected) if tile.name}
    assert tiles["Reward"].note == "mean of timesteps 512 to 768; timesteps 64 to 320: 9"
    [finding] = [one for one in overview.examine(collected).findings if one.code == "P3_kl_explosion"]
    assert finding.text.startswith("KL explosion since timestep 320: train/approx_kl is 9 nat")
    assert "rollout/ep_rew_mean 30 (best 33 at timestep 704)" in result.words(collected)
