"""A budget lowers what gateways keep: no trace is cut, what is always kept stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import shipped_settings
from collector_process import FILE_SINK, CollectorProcess, wait_for
from sampled_traces import (
    FAST,
    all_ids,
    ids,
    ordinary,
    own_metrics,
    send_together,
    trace,
)

if TYPE_CHECKING:
    from pathlib import Path

GATEWAY = ("gateway.yaml", FILE_SINK)
SPANS_PER_SECOND = 10
#: Spans that the budget allows per window of 10 s.
ALLOWED = 10 * SPANS_PER_SECOND


def policy(metrics: dict[str, dict[str, float]], name: str, policy_name: str, decision: str = "") -> float:
    shown = metrics.get(f"otelcol_trace_budget_{name}", {})
    return sum(value for labels, value in shown.items() if f'policy="{policy_name}"' in labels and decision in labels)


@pytest.fixture
def tight(start_collector) -> CollectorProcess:
    # One of three gateways, so it has a third of the budget.
    budget = {shipped_settings.SPAN_BUDGET: str(3 * SPANS_PER_SECOND), "extensions::trace_budget::gateways": "3"}
    variables = {**budget, "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "100"}
    return start_collector(*GATEWAY, **FAST, **variables)


def test_its_part_of_the_budget_lowers_the_share_of_the_rest_and_keeps_steps_errors_and_hinted_ones(
    tight: CollectorProcess,
):
    rest = [ordinary() for _ in range(1000)]
    always = [trace("rl.loop", "rl.train") for _ in range(5)]
    always += [trace("rl.rollout", "chat tiny", error=True) for _ in range(5)]
    always += [trace("rl.rollout", root={"attributes": {"rl.sampling.priority": 1}}) for _ in range(5)]
    send_together(tight, rest + always)
    wait_for(lambda: policy(own_metrics(tight), "traces", "rest") == len(rest), "all of the rest are decided")
    shown = own_metrics(tight)
    assert shown["otelcol_trace_budget_limit"] == {"": SPANS_PER_SECOND}
    tight.stop()
    left = ids(tight.spans())
    assert left >= all_ids(always)
    kept = [spans for spans in rest if ids(spans) <= left]
    assert left == all_ids(always + kept), "a trace was kept in part"
    # The first window keeps at most its allowance times 1 + ln(load / allowance); a second one may begin meanwhile.
    assert ALLOWED / 4 <= sum(map(len, kept)) <= ALLOWED * 6
    assert policy(shown, "percentage", "rest") <= 100 * ALLOWED / sum(map(len, rest))
    assert policy(shown, "traces", "rest", 'decision="kept"') == len(kept)
    assert policy(shown, "spans", "rest", 'decision="let_go"') == sum(map(len, rest)) - sum(map(len, kept))
    assert (
        policy(shown, "traces", "steps") == policy(shown, "traces", "errors") == policy(shown, "traces", "hinted") == 5
    )


def test_truncated_rollouts_share_the_budget_with_the_rest(tight: CollectorProcess):
    reasons = {"attributes": {"gen_ai.response.finish_reasons": ["length"]}}
    truncated = [trace("rl.rollout", "chat tiny", root=reasons) for _ in range(1000)]
    send_together(tight, truncated)
    wait_for(lambda: policy(own_metrics(tight), "traces", "truncated") == len(truncated), "all are decided")
    tight.stop()
    assert len(ids(tight.spans())) <= ALLOWED * 6


def test_a_budget_of_zero_is_none(start_collector):
    variables = {shipped_settings.SPAN_BUDGET: "0", "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "100"}
    gateway = start_collector(*GATEWAY, **FAST, **variables)
    rest = [ordinary() for _ in range(500)]
    send_together(gateway, rest)
    gateway.stop()
    assert ids(gateway.spans()) == all_ids(rest)


def test_a_budget_without_meaning_is_refused_before_the_start(otelcol_rl: Path, tmp_path: Path):
    settings = {shipped_settings.SPAN_BUDGET: "-1", "extensions::trace_budget::gateways": "0"}
    validated = CollectorProcess(otelcol_rl, GATEWAY, tmp_path, settings).validate()
    assert validated.returncode != 0
    assert "spans_per_second is -1; give 0 (no budget) or more" in validated.stderr
    assert "gateways is 0; give the number of gateways" in validated.stderr


def test_a_share_beyond_100_stops_the_start_with_the_policy_and_what_is_accepted(otelcol_rl: Path, tmp_path: Path):
    gateway = CollectorProcess(otelcol_rl, GATEWAY, tmp_path, {"OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "150"})
    with pytest.raises(AssertionError, match=r'policy "rest": percentage is 150; give 0 to 100'):
        gateway.__enter__()
