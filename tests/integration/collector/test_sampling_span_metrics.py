"""Span metrics count before sampling: the same whatever is kept, one owner a series, bounded against made-up names."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from collector_process import FILE_SINK, CollectorProcess, wait_for
from otlp import attributes, trace_resource
from sampled_traces import CALLS, FAST, RUN, collectors, ordinary, send_together, span_calls, span_series, trace

if TYPE_CHECKING:
    from pathlib import Path

GATEWAY = ("gateway.yaml", FILE_SINK)
DURATION = "traces.span.metrics.duration"
LIMIT = 2000


def mixed() -> list[list[dict[str, Any]]]:
    """Every kind of trace that sampling tells apart."""
    steps = [trace("rl.loop", "rl.rank.step", "rl.sample", "chat tiny") for _ in range(5)]
    failed = [trace("rl.rollout", "execute_tool search", error=True) for _ in range(5)]
    lifecycle = [trace("rl.run"), trace("rl.checkpoint")]
    return steps + failed + lifecycle + [ordinary() for _ in range(150)]


def counted(collector: CollectorProcess, name: str) -> dict[str, Any]:
    """What each series of a span metric says, without who owns it and when."""
    found: dict[str, Any] = {}
    for point in span_series(collector, name).values():
        labels = attributes(point)
        del labels["collector.instance.id"]
        values = {key: point.get(key) for key in ("asInt", "count", "sum", "bucketCounts", "explicitBounds")}
        found[str(sorted(labels.items()))] = values
    return found


def resources_of_spans(collector: CollectorProcess) -> list[dict[str, Any]]:
    """Whom the span metrics belong to, each once."""
    groups = [group for group in collector.resources("metrics") if CALLS in str(group)]
    return list({str(found): found for found in (attributes(group["resource"]) for group in groups)}.values())


def owners(collector: CollectorProcess) -> set[str]:
    return {attributes(point)["collector.instance.id"] for point in span_series(collector).values()}


def test_span_metrics_are_the_same_with_and_without_sampling(otelcol_rl: Path, tmp_path: Path):
    traces = mixed()
    total = sum(map(len, traces))
    shares = [(GATEWAY, {"OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": text}) for text in ("100", "1")]
    with collectors(otelcol_rl, tmp_path, *shares) as gateways:
        for gateway in gateways:
            send_together(gateway, traces)
            wait_for(lambda gateway=gateway: span_calls(gateway) == total, f"{total} spans counted")
            gateway.stop()
        whole, sampled = gateways
        assert len(whole.spans()) == total > 2 * len(sampled.spans())
        for name in (CALLS, DURATION):
            assert counted(whole, name) == counted(sampled, name)
            assert counted(whole, name)


def test_gateways_own_their_series_and_their_sum_is_the_input(otelcol_rl: Path, tmp_path: Path):
    traces = mixed()
    total = sum(map(len, traces))
    with collectors(otelcol_rl, tmp_path, (GATEWAY, {}), (GATEWAY, {})) as gateways:
        for number, gateway in enumerate(gateways):
            send_together(gateway, traces[number::2])
        wait_for(lambda: sum(map(span_calls, gateways)) == total, f"{total} spans counted by both together")
        first, second = (set(span_series(gateway)) for gateway in gateways)
        assert first
        assert second
        assert not first & second, "two gateways write the same series"
        assert [len(owners(gateway)) for gateway in gateways] == [1, 1]
        assert owners(gateways[0]) != owners(gateways[1])


def test_names_that_a_model_makes_up_meet_in_one_series_and_every_span_is_still_counted(start_collector):
    gateway = start_collector(*GATEWAY, **FAST, OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE="0")
    made_up = [
        trace(f"execute_tool made-up-{number}", root={"attributes": {"gen_ai.tool.name": f"made-up-{number}"}})
        for number in range(LIMIT + 500)
    ]
    send_together(gateway, made_up)
    wait_for(lambda: span_calls(gateway) == len(made_up), "every span is counted")
    series = [attributes(point) for point in span_series(gateway).values()]
    assert len(series) == LIMIT + 1
    (owner,) = owners(gateway)
    overflow = {"otel.metric.overflow": True, "collector.instance.id": owner}
    assert [labels for labels in series if "otel.metric.overflow" in labels] == [overflow]


def test_a_run_of_many_ranks_has_the_series_of_one(start_collector):
    gateway = start_collector(*GATEWAY, **FAST, OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE="0")
    ranks, steps = 50, trace("rl.loop", "rl.rank.step", "rl.sample")
    of_ranks = [
        trace_resource(
            steps,
            **RUN,
            **{"rl.rank": rank, "host.name": f"node-{rank // 8}", "process.pid": 100 + rank},
            **{"service.instance.id": str(uuid.uuid4())},
        )
        for rank in range(ranks)
    ]
    gateway.send("traces", of_ranks)
    wait_for(lambda: span_calls(gateway) == ranks * len(steps), "every span is counted")
    counts = {attributes(point)["span.name"]: int(point["asInt"]) for point in span_series(gateway).values()}
    assert counts == {"rl.loop": ranks, "rl.rank.step": ranks, "rl.sample": ranks}
    (resource,) = {str(sorted(found.items())) for found in resources_of_spans(gateway)}
    assert resource == str(sorted({"service.name": "train", **RUN}.items()))


def test_runs_and_roles_have_series_of_their_own(start_collector):
    gateway = start_collector(*GATEWAY, **FAST, OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE="0")
    whose = [{"rl.run.id": run, "rl.role": role} for run in ("run-1", "run-2") for role in ("trainer", "rollout")]
    gateway.send("traces", [trace_resource(trace("rl.loop"), **each) for each in whose])
    wait_for(lambda: span_calls(gateway) == len(whose), "every span is counted")
    found = [{key: each[key] for key in RUN} for each in resources_of_spans(gateway)]
    assert sorted(map(str, found)) == sorted(map(str, whose))


def test_a_gateway_goes_on_with_its_series_after_a_restart(otelcol_rl: Path, tmp_path: Path):
    gateway = CollectorProcess(otelcol_rl, GATEWAY, tmp_path, FAST)
    series = []
    for _ in range(2):
        with gateway:
            send_together(gateway, [trace("rl.loop")])
            wait_for(lambda: span_series(gateway), "the span is counted")
        series.append(set(span_series(gateway)))
        for file in gateway.data.iterdir():
            file.unlink()
    assert series[0] == series[1]
    assert series[0]


def test_spans_of_a_service_without_a_name_are_counted_too(start_collector):
    gateway = start_collector(*GATEWAY, **FAST, OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE="0")
    nameless = ordinary()
    gateway.send("traces", [{"scopeSpans": [{"spans": nameless}]}])
    wait_for(lambda: span_calls(gateway) == len(nameless), "every span is counted")
    (service,) = {attributes(point)["service.name"] for point in span_series(gateway).values()}
    assert service == "unknown_service"
