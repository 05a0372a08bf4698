"""Span metrics count before sampling: the same whatever is kept, one owner a series, bounded against made-up names."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
import shipped_settings
from collector_process import FILE_SINK, CollectorProcess, wait_for
from otlp import attributes, trace_resource
from sampled_traces import CALLS, FAST, RUN, collectors, ordinary, send_together, span_calls, span_series, trace

if TYPE_CHECKING:
    from collections.abc import Iterator
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


def resources_of_spans(collector: CollectorProcess, run: str) -> list[dict[str, Any]]:
    """Whom the span metrics of a run belong to, each once."""
    groups = [group for group in collector.resources("metrics") if CALLS in str(group)]
    found = [attributes(group["resource"]) for group in groups]
    return list({str(sorted(each.items())): each for each in found if each.get("rl.run.id") == run}.values())


def owners(collector: CollectorProcess) -> set[str]:
    return {attributes(point)["collector.instance.id"] for point in span_series(collector).values()}


def test_gateways_own_their_series_and_count_every_span_whatever_they_keep(otelcol_rl: Path, tmp_path: Path):
    traces = mixed()
    sent = sum(map(len, traces))
    shares = [(GATEWAY, {"OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": text}) for text in ("100", "1")]
    with collectors(otelcol_rl, tmp_path, *shares) as gateways:
        for gateway in gateways:
            send_together(gateway, traces)
            wait_for(lambda gateway=gateway: span_calls(gateway) == sent, f"{sent} spans counted")
            gateway.stop()
        whole, sampled = gateways
        assert len(whole.spans()) == sent > 2 * len(sampled.spans())
        for name in (CALLS, DURATION):
            assert counted(whole, name) == counted(sampled, name)
            assert counted(whole, name)
        assert not set(span_series(whole)) & set(span_series(sampled)), "two gateways write the same series"
        assert [len(owners(gateway)) for gateway in gateways] == [1, 1]
        assert owners(whole) != owners(sampled)


@pytest.fixture(scope="module")
def gateway(otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """One for all runs and services that are told apart by their names."""
    variables = {**FAST, "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "0"}
    with CollectorProcess(otelcol_rl, GATEWAY, tmp_path_factory.mktemp("gateway"), variables) as running:
        yield running


def calls(gateway: CollectorProcess, **whose: str) -> list[dict[str, Any]]:
    """The newest point of each series of the span counter whose resource has these attributes."""
    wanted = [str(pair) for pair in whose.items()]
    return [point for key, point in span_series(gateway).items() if all(pair in key for pair in wanted)]


def total(points: list[dict[str, Any]]) -> int:
    return sum(int(point["asInt"]) for point in points)


def test_a_run_of_many_ranks_has_the_series_of_one(gateway: CollectorProcess):
    ranks, steps = 50, trace("rl.loop", "rl.rank.step", "rl.sample")
    run = {"rl.run.id": "many-ranks", "rl.role": "trainer"}
    of_ranks = [
        trace_resource(
            steps,
            **run,
            **{"rl.rank": rank, "host.name": f"node-{rank // 8}", "process.pid": 100 + rank},
            **{"service.instance.id": str(uuid.uuid4())},
        )
        for rank in range(ranks)
    ]
    gateway.send("traces", of_ranks)
    wait_for(lambda: total(calls(gateway, **run)) == ranks * len(steps), "every span is counted")
    counts = {attributes(point)["span.name"]: int(point["asInt"]) for point in calls(gateway, **run)}
    assert counts == {"rl.loop": ranks, "rl.rank.step": ranks, "rl.sample": ranks}
    assert resources_of_spans(gateway, "many-ranks") == [{"service.name": "train", **run}]


def test_runs_and_roles_have_series_of_their_own(gateway: CollectorProcess):
    whose = [{"rl.run.id": run, "rl.role": role} for run in ("run-a", "run-b") for role in ("trainer", "rollout")]
    gateway.send("traces", [trace_resource(trace("rl.loop"), **each) for each in whose])
    for each in whose:
        wait_for(lambda each=each: total(calls(gateway, **each)) == 1, f"the span of {each} is counted")
    found = [{key: each[key] for key in RUN} for run in ("run-a", "run-b") for each in resources_of_spans(gateway, run)]
    assert sorted(map(str, found)) == sorted(map(str, whose))


def test_spans_of_a_service_without_a_name_are_counted_too(gateway: CollectorProcess):
    nameless = ordinary()
    gateway.send("traces", [{"scopeSpans": [{"spans": nameless}]}])
    service = {"service.name": "unknown_service"}
    wait_for(lambda: total(calls(gateway, **service)) == len(nameless), "every span is counted")
    assert {attributes(point)["service.name"] for point in calls(gateway, **service)} == set(service.values())


def test_names_that_a_model_makes_up_meet_in_one_series_and_every_span_is_still_counted(start_collector):
    # A flush of so many series takes a megabyte: seldom, so that they are read faster than they are written.
    seldom = {**FAST, shipped_settings.SPAN_METRICS_INTERVAL: "5s"}
    gateway = start_collector(*GATEWAY, **seldom, OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE="0")
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
