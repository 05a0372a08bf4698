"""An engine that generates with old weights is a finding with place, onset and cost; one that syncs reach is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unit.report.made_up_jobs import examined
from unit.report.synthetic_run import process

from otel_rl.report import write_report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STARTED = 1_700_000_000_000_000_000
FAST, SLOW, JUDGE = "10.0.0.1:30000 policy", "10.0.0.2:30000 policy", "10.0.0.9:8000 judge"


def _run(
    folder: Path, behind: Callable[[str, int], int | list[int]], *, engines: tuple[str, ...], steps: int = 12
) -> Path:
    """Each engine answers four rollouts in each step; ``behind`` says how many versions each time."""
    run = folder / "data" / "run"
    writer = process(run, 0, world_size=1, started=STARTED)
    for step in range(1, steps + 1):
        writer.span("rl.rank.step", step, step + 1, {"rl.loop.iteration": step, "rl.rank": 0})
        found: list[tuple[str, int, int]] = []
        for engine in engines:
            lag = behind(engine, step)
            version = 1 if engine == JUDGE else step
            found += [(engine, version - one, one) for one in (lag if isinstance(lag, list) else [lag] * 4)]
        body: dict[str, list[Any]] = {
            "rl.rollout.reward": [0.5] * len(found),
            "rl.rollout.engines": [engine for engine, _, _ in found],
            "rl.rollout.engine_versions": [[version] for _, version, _ in found],
            "rl.rollout.engine_versions_behind": [[lag] for _, _, lag in found],
        }
        attributes = {"rl.loop.iteration": step, "rl.trajectories.source": "api", "rl.trajectories.started": len(found)}
        writer.event("rl.trajectories", step + 0.5, body, attributes)
    writer.write()
    return run


def _stale(run: Path) -> list[Any]:
    return [one for one in examined(run).findings if one.code == "stale_engine"]


def test_an_engine_that_syncs_leave_out_is_named_with_its_onset_its_lag_and_its_rollouts(tmp_path: Path) -> None:
    run = _run(tmp_path, lambda name, step: max(step - 8, 0) if name == SLOW else 0, engines=(FAST, SLOW))
    [one] = _stale(run)
    assert (one.subject, one.onset, one.severity.value) == (SLOW, 9, "critical")
    assert one.cost == 16 / 96
    assert "since step 9: it was up to 4 versions behind, and answered 16 rollouts meanwhile" in one.text
    assert "versions that it answered with: 1 to 8, the last one 8" in one.evidence[0]

    report = write_report(run, tmp_path / "page.html")
    fast, slow = report.weight_versions
    assert (fast["engine"], fast["newest"], fast["behind"], fast["stale"]) == (FAST, 12, 0, None)
    assert (slow["oldest"], slow["newest"], slow["latest"], slow["versions"], slow["behind"]) == (1, 8, 8, 8, 4)
    assert slow["stale"] == {"since_step": 9, "steps": 4, "behind": 4, "rollouts": 16, "caught_up": False}
    assert f"behind at the last rollout, in versions: {SLOW} 4" in report.output.read_text(encoding="utf-8")


def test_the_share_of_tokens_that_older_weights_made_is_in_the_section_on_trajectories(tmp_path: Path) -> None:
    run = tmp_path / "data" / "run"
    writer = process(run, 0, world_size=1, started=STARTED)
    body = {
        "rl.rollout.engines": [FAST, FAST],
        "rl.rollout.engine_versions": [[3], [3]],
        "rl.rollout.engine_versions_behind": [[0], [0]],
        "rl.rollout.output_tokens": [300, 100],
        "rl.rollout.tokens_behind": [100, 0],
    }
    writer.event("rl.trajectories", 1.0, body, {"rl.loop.iteration": 1, "rl.trajectories.source": "api"})
    writer.write()

    write_report(run, tmp_path / "page.html")
    assert "Older weights than the newest made 25 % of the output tokens." in (tmp_path / "page.html").read_text()


def test_the_only_engine_that_skips_one_sync_is_a_warning(tmp_path: Path) -> None:
    [one] = _stale(_run(tmp_path, lambda _, step: int(step == 8), engines=(FAST,)))
    assert (one.onset, one.severity.value) == (8, "warning")
    assert "since step 8, for 1 step" in one.text


def test_an_engine_that_no_sync_ever_reaches_is_found_without_others(tmp_path: Path) -> None:
    [one] = _stale(_run(tmp_path, lambda _, step: step - 1, engines=(FAST,)))
    assert one.onset == 2


def test_weights_that_are_synced_every_third_step_are_no_finding(tmp_path: Path) -> None:
    assert _stale(_run(tmp_path, lambda _, step: step % 3, engines=(FAST, SLOW, JUDGE))) == []


def test_rollouts_that_end_while_engines_get_weights_one_after_another_are_no_finding(tmp_path: Path) -> None:
    assert _stale(_run(tmp_path, lambda name, _: [1, 1, 0, 0] if name == SLOW else 0, engines=(FAST, SLOW))) == []


def test_without_steps_an_engine_is_found_too(tmp_path: Path) -> None:
    run = tmp_path / "data" / "run"
    writer = process(run, 0, world_size=1, started=STARTED)
    for number in range(400):
        lag = max(number // 64 - 2, 0)
        body = {
            "rl.rollout.engines": [FAST, SLOW],
            "rl.rollout.engine_versions": [[9], [9 - lag]],
            "rl.rollout.engine_versions_behind": [[0], [lag]],
        }
        writer.event("rl.trajectories", 1 + number, body, {"rl.trajectories.source": "api"})
    writer.write()
    [one] = _stale(run)
    assert (one.subject, one.onset) == (SLOW, None)


def test_columns_that_are_broken_count_nothing(tmp_path: Path) -> None:
    run = tmp_path / "data" / "run"
    writer = process(run, 0, world_size=1, started=STARTED)
    body = {
        "rl.rollout.engines": [FAST, [1], None, FAST],
        "rl.rollout.engine_versions": [["a"], [1], [True], []],
        "rl.rollout.engine_versions_behind": [[0], [1]],
    }
    writer.event("rl.trajectories", 1, body, {"rl.trajectories.source": "api"})
    writer.write()
    assert write_report(run, tmp_path / "page.html").weight_versions == []
