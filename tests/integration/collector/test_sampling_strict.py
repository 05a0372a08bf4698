"""Strict sampling: by hint and trace id, span by span; nothing is held back, nothing depends on what came before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml
from collector_process import CONFIGURATION, FILE_SINK, CollectorProcess, wait_for
from otlp import span, trace_resource
from sampled_traces import (
    FAST,
    RUN,
    all_ids,
    collectors,
    ids,
    in_share,
    ordinary,
    own_metrics,
    send_together,
    span_calls,
    trace,
)

if TYPE_CHECKING:
    from pathlib import Path

TAIL = ("gateway.yaml", FILE_SINK)
STRICT = (*TAIL, "overlays/strict.yaml")
SHARE = {"OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "12.5"}
HINT = {"attributes": {"rl.sampling.priority": 1}}


def hinted_step() -> list[dict]:
    """A step as the pack sends it: the hint on every span."""
    return trace("rl.loop", "chat tiny", root=HINT, **HINT)


STEPS = [hinted_step() for _ in range(20)]
LIFECYCLE = [trace("rl.run"), trace("rl.checkpoint"), trace("rl.weight_sync")]
LATE = span("rl.evaluate", HINT["attributes"], trace_id=STEPS[0][0]["traceId"], parent=STEPS[0][0]["spanId"])
FAILED = trace("rl.rollout", "chat tiny", error=True)
REST = [ordinary() for _ in range(50)]
TOTAL = sum(map(len, [*STEPS, *LIFECYCLE, FAILED, *REST, [LATE]]))


class Strict(NamedTuple):
    """What a strict gateway without a share for the rest did with all of these."""

    left: set[str]
    counted: int
    own_metrics: set[str]


@pytest.fixture(scope="module")
def strict(otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> Strict:
    # Far longer than a test waits: what comes out has not waited for a decision.
    slow = {**FAST, "OTEL_RL_COLLECTOR_DECISION_WAIT": "1h", "OTEL_RL_COLLECTOR_ROOT_WAIT": "1h"}
    variables = {**slow, "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "0"}
    with CollectorProcess(otelcol_rl, STRICT, tmp_path_factory.mktemp("strict"), variables) as gateway:
        send_together(gateway, [*STEPS, *LIFECYCLE, FAILED, *REST])
        wait_for(lambda: ids(gateway.spans()) >= all_ids(STEPS + LIFECYCLE), "all that is kept")
        gateway.send("traces", [trace_resource([LATE], **RUN)])
        wait_for(lambda: LATE["spanId"] in ids(gateway.spans()), "the late span")
        wait_for(lambda: span_calls(gateway) >= TOTAL, "all spans are counted")
        shown = set(own_metrics(gateway))
        gateway.stop()
        return Strict(ids(gateway.spans()), span_calls(gateway), shown)


def test_hinted_and_lifecycle_spans_leave_at_once_and_whole_and_nothing_else(strict: Strict):
    assert strict.left == all_ids(STEPS + LIFECYCLE) | {LATE["spanId"]}


def test_a_late_span_needs_no_memory_of_its_trace(strict: Strict):
    assert LATE["spanId"] in strict.left


def test_an_error_alone_keeps_nothing_but_is_counted(strict: Strict):
    assert not ids(FAILED) & strict.left
    assert strict.counted == TOTAL


def test_no_sampler_that_holds_traces_is_there(strict: Strict):
    assert not [name for name in strict.own_metrics if "tail_sampling" in name]


def test_gateways_decide_alike_for_every_trace_id_strict_or_not_and_with_a_part_of_the_trace_only(
    otelcol_rl: Path, tmp_path: Path
):
    rest, of_two_ranks = ([ordinary() for _ in range(300)] for _ in range(2))
    with collectors(otelcol_rl, tmp_path, (STRICT, SHARE), (STRICT, SHARE), (TAIL, SHARE)) as gateways:
        for number, gateway in enumerate(gateways):
            send_together(gateway, rest)
            if number < 2:
                send_together(gateway, [spans[number::2] for spans in of_two_ranks])
            gateway.stop()
        left = [ids(gateway.spans()) for gateway in gateways]
    expected = all_ids(spans for spans in rest if in_share(spans, 12.5))
    assert left[2] == expected
    assert left[0] & all_ids(rest) == left[1] & all_ids(rest) == expected
    assert (left[0] | left[1]) - all_ids(rest) == all_ids(spans for spans in of_two_ranks if in_share(spans, 12.5))


def test_lifecycle_spans_go_round_sampling_by_the_same_rule_as_in_the_gateway():
    def table(file: str) -> list[dict]:
        return yaml.safe_load((CONFIGURATION / file).read_text())["connectors"]["routing/lifecycle"]["table"]

    lifecycle, hinted = table("overlays/strict.yaml")
    assert [lifecycle] == table("gateway.yaml")
    assert "rl.sampling.priority" in hinted["condition"]
