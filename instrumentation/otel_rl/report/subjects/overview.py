"""All findings in order of what they cost, what was checked, and what was unobserved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from otel_rl.report.core.change_points import FEWEST
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.core.summary import summarise
from otel_rl.report.subjects.calls import finding as failures
from otel_rl.report.subjects.calls.calls_over_time import MODEL, TOOL
from otel_rl.report.subjects.changes import change_sentences
from otel_rl.report.subjects.changes import level_changes as changes
from otel_rl.report.subjects.endings import finding as endings
from otel_rl.report.subjects.event_loops import finding as event_loops
from otel_rl.report.subjects.health import finding as health
from otel_rl.report.subjects.ranks import finding as late_ranks
from otel_rl.report.subjects.siblings import finding as comparisons
from otel_rl.report.subjects.telemetry import finding as recording
from otel_rl.report.subjects.trajectories import finding as samples
from otel_rl.report.subjects.weight_syncs import finding as weight_syncs
from otel_rl.semconv import metrics

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected


@dataclass(slots=True)
class Overview:
    """Findings, the most important first, and the checks behind them."""

    findings: list[Finding]
    checks: list[Check]

    @property
    def worst(self) -> Severity | None:
        """Severity of the gravest finding."""
        return min((one.severity for one in self.findings), key=lambda one: one.order, default=None)

    def marks(self) -> dict[str, list[int]]:
        """Steps at which something began, by the key of the chart that shows it."""
        found: dict[str, list[int]] = {}
        for one in self.findings:
            for each in (one, *one.symptoms):
                if each.chart and each.onset is not None and each.onset not in found.get(each.chart, ()):
                    found.setdefault(each.chart, []).append(each.onset)
        return found


def examine(collected: Collected) -> Overview:
    """Look for everything that the report knows of."""
    summary = summarise(collected)
    ended = endings.find(collected, summary)
    changed = change_sentences.findings(changes.find(collected), collected)
    changed += _of_others(collected)
    failing = failures.tools(collected)
    failing += failures.models(collected, {one.subject for one in changed if one.section == "models"})
    constant = [*late_ranks.find(collected), *comparisons.siblings(collected)]
    found = [*ended, *weight_syncs.find(collected), *changed, *failing, *_not_explained(constant, changed)]
    found += failures.hangs(collected, found)
    found += failures.errors(collected, found)
    found += samples.find(collected)
    found += event_loops.find(collected)
    found += recording.find(collected)
    judged, rules = health.find(collected, summary.attempt)
    found += health.explained(judged, found)
    return Overview(sorted(found, key=_order), [*_checks(collected), *rules])


def _of_others(collected: Collected) -> list[Finding]:
    """What became slower in the loops and attempts that the page does not draw."""
    found = []
    for stretch, steps in collected.loops.others().items():
        view, where = collected.of(steps), collected.loops.name(stretch)
        found += [_placed(one, where) for one in change_sentences.findings(changes.find(view), view)]
    return found


def _placed(one: Finding, where: str) -> Finding:
    text = f"{one.text.removesuffix('.')} ({where})."
    # No chart shows it.
    return replace(one, text=text, chart="", symptoms=[_placed(symptom, where) for symptom in one.symptoms])


def _order(one: Finding) -> tuple[int, bool, float]:
    """By severity; what ended the run comes before what it cost to run."""
    return one.severity.order, one.code not in ("ended", "missing_ranks"), -(one.cost or 0.0)


def _not_explained(constant: list[Finding], changed: list[Finding]) -> list[Finding]:
    """Of what is slower all along, that which no change explains; the rest goes below the change."""
    left = []
    for one in constant:
        cause = next((root for root in changed if _is_the_same(one, root)), None)
        if cause is None:
            left.append(one)
        else:
            cause.symptoms.append(one)
    return left


def _is_the_same(one: Finding, root: Finding) -> bool:
    if one.subject:
        return any(one.subject == each.subject for each in (root, *root.symptoms))
    return bool(one.ranks) and one.ranks == root.ranks


def _checks(collected: Collected) -> list[Check]:
    """What was looked for, and why it could not be seen where it could not."""
    steps, calls = collected.steps, collected.calls
    ranks = [rank for rank in steps.ranks if rank is not None]
    kinds = {called.kind for called in calls.over_time.seconds.lines()}
    first_chunks, retries = calls.over_time.first_chunk.lines(), calls.over_time.retried.lines()
    manifests = [process for process in collected.reader.processes if process.manifest is not None]
    return [
        Check("how the processes ended", "" if manifests else _NO_MANIFEST, ("ended", "missing_ranks", "hang")),
        Check("errors", codes=("errors", "failing_tool", "failing_model", "hang")),
        Check(
            "duration of steps and phases",
            _too_few(steps.lengths.cell.count / max(len(ranks), 1)),
            ("slower_phase", "slower_step", "longer_garbage_collection"),
        ),
        Check(
            "a rank that is late in its steps",
            _ranks_unseen(collected, ranks),
            ("late_rank", "slower_rank", "slower_collectives", "hang"),
        ),
        Check(
            "reward functions",
            "" if collected.rewards.functions.lines() else "no duration was recorded",
            ("slower_reward", "slow_reward"),
        ),
        Check("rollouts", "" if calls.rollouts.statistics.number else "none was recorded", ("slower_rollouts",)),
        Check(
            "blocks of event loops",
            "" if any(collected.totals.of(metrics.RL_EVENT_LOOP_LAG)) else "no operation was seen in one",
            ("blocked_event_loop",),
        ),
        Check("tools", "" if TOOL in kinds else _NO_CALL, ("slower_tool", "slow_tool", "failing_tool")),
        Check("model calls", "" if MODEL in kinds else _NO_CALL, _OF_MODELS),
        Check(
            "time to the first chunk",
            "" if first_chunks else _NO_STREAM if MODEL in kinds else _NO_CALL,
            ("slower_model",),
        ),
        Check("retries", "" if retries else "the clients do not tell" if MODEL in kinds else _NO_CALL, _OF_MODELS),
        samples.check(collected),
        weight_syncs.check(collected),
        Check("lost telemetry", "" if manifests else _NO_MANIFEST, ("lost_telemetry",)),
    ]


_NO_MANIFEST = "the files of a collector do not tell"
_OF_MODELS = ("slower_model", "slow_server", "failing_model", "retried_model")
_NO_CALL, _NO_STREAM = "no call was recorded", "no call was streamed"


_NO_STEP = "no trace of a step was recorded"


def _too_few(number: float) -> str:
    if not number:
        return _NO_STEP
    return "" if number >= 2 * FEWEST else f"{number:.0f} steps are too few to tell a change"


def _ranks_unseen(collected: Collected, ranks: list[int]) -> str:
    if not collected.steps.ranks:
        return _NO_STEP
    if len(ranks) < 2:  # noqa: PLR2004 - nothing to compare
        return "it takes two ranks, and the steps are of one"
    return "" if collected.steps.seen.count else "the collectives of the steps were not seen"
