"""Strict sampling: by hint and trace id, span by span; nothing is held back, nothing depends on what came before."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


@pytest.fixture
def strict(start_collector) -> CollectorProcess:
    # Far longer than a test waits: what comes out has not waited for a decision.
    slow = {**FAST, "OTEL_RL_COLLECTOR_DECISION_WAIT": "1h", "OTEL_RL_COLLECTOR_ROOT_WAIT": "1h"}
    return start_collector(*STRICT, **slow, OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE="0")


def hinted_step() -> list[dict]:
    """A step as the pack sends it: the hint on every span."""
    return trace("rl.loop", "chat tiny", root=HINT, **HINT)


def test_two_strict_gateways_and_one_that_waits_decide_alike_for_every_trace_id(otelcol_rl: Path, tmp_path: Path):
    rest = [ordinary() for _ in range(300)]
    with collectors(otelcol_rl, tmp_path, (STRICT, SHARE), (STRICT, SHARE), (TAIL, SHARE)) as gateways:
        for gateway in gateways:
            send_together(gateway, rest)
            gateway.stop()
        kept = [ids(gateway.spans()) for gateway in gateways]
    assert kept[0] == kept[1] == kept[2] == all_ids(spans for spans in rest if in_share(spans, 12.5))


def test_ranks_that_send_to_different_gateways_keep_the_same_traces(otelcol_rl: Path, tmp_path: Path):
    rest = [ordinary() for _ in range(300)]
    with collectors(otelcol_rl, tmp_path, (STRICT, SHARE), (STRICT, SHARE)) as gateways:
        for number, gateway in enumerate(gateways):
            send_together(gateway, [spans[number::2] for spans in rest])
            gateway.stop()
        left = {span_id for gateway in gateways for span_id in ids(gateway.spans())}
    assert left == all_ids(spans for spans in rest if in_share(spans, 12.5))


def test_hinted_and_lifecycle_spans_leave_at_once_and_whole(strict: CollectorProcess):
    kept = [hinted_step() for _ in range(20)] + [trace("rl.run"), trace("rl.checkpoint"), trace("rl.weight_sync")]
    send_together(strict, [*kept, *(ordinary() for _ in range(50))])
    wait_for(lambda: ids(strict.spans()) >= all_ids(kept), "all that is kept")
    strict.stop()
    assert ids(strict.spans()) == all_ids(kept)


def test_a_late_span_needs_no_memory_of_its_trace(strict: CollectorProcess):
    step = hinted_step()
    send_together(strict, [step])
    wait_for(lambda: ids(strict.spans()) == ids(step), "the step")
    late = span("rl.evaluate", HINT["attributes"], trace_id=step[0]["traceId"], parent=step[0]["spanId"])
    strict.send("traces", [trace_resource([late], **RUN)])
    wait_for(lambda: ids(strict.spans()) == ids([*step, late]), "the late span")


def test_an_error_alone_keeps_nothing_but_is_counted(strict: CollectorProcess):
    failed = trace("rl.rollout", "chat tiny", error=True)
    send_together(strict, [failed])
    wait_for(lambda: span_calls(strict) == len(failed), "the spans are counted")
    strict.stop()
    assert not strict.spans()


def test_no_sampler_that_holds_traces_is_there(strict: CollectorProcess):
    send_together(strict, [hinted_step()])
    wait_for(strict.spans, "the step")
    assert not [name for name in own_metrics(strict) if "tail_sampling" in name]


def test_lifecycle_spans_go_round_sampling_by_the_same_rule_as_in_the_gateway():
    def table(file: str) -> list[dict]:
        return yaml.safe_load((CONFIGURATION / file).read_text())["connectors"]["routing/lifecycle"]["table"]

    lifecycle, hinted = table("overlays/strict.yaml")
    assert [lifecycle] == table("gateway.yaml")
    assert "rl.sampling.priority" in hinted["condition"]
