"""Rules about inference engines as Prometheus evaluates them: one family; alerts fire, stay quiet and resolve."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from promtool_rules import Promtool, RuleTest, alert_at, fires, labels, links, passed, rule_test

from dashboards.rules import engines as rules

RUN = {"rl_run_id": "r1"}
VLLM = {"job": "vllm", "model_name": "m", "engine": "0"}
SGLANG = {"job": "sglang", "model_name": "m", "engine_type": "unified"}


@pytest.fixture
def promtool(promtool: Promtool) -> Promtool:
    """Only with the rules about engines."""
    return replace(promtool, files="engine_*.yaml")


def of(name: str, values: str, instance: str = "a:1", **extra: str) -> dict[str, str]:
    """A series of an engine, whose name tells which."""
    engine = VLLM if name.startswith("vllm") else SGLANG
    return {name + labels(**RUN, **engine, instance=instance, **extra): values}


def is_recorded(rule: Any, at: str, value: float, instance: str = "a:1", **extra: str) -> dict[str, Any]:
    """The one value of a recording rule for a replica."""
    who = labels(**RUN, instance=instance, **extra)
    question = f"round(sum({rule.name}{who}), 0.001)"  # a rate of 1 may be a little less
    return {"expr": question, "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]}


def evaluated(series: dict[str, str], *expected: dict[str, Any]) -> RuleTest:
    return rule_test(series, promql_expr_test=list(expected))


SPELLINGS = {
    rules.RUNNING: ("vllm{}num_requests_running", "sglang{}num_running_reqs", "3x40", 3),
    rules.KV_USAGE: ("vllm{}kv_cache_usage_perc", "sglang{}token_usage", "0.5x40", 0.5),
    rules.WAITING: ("vllm{}num_requests_waiting", "sglang{}num_queue_reqs", "7x40", 7),
    rules.GENERATED: ("vllm{}generation_tokens_total", "sglang{}generation_tokens_total", "0+30x40", 2),
    rules.PREEMPTIONS: ("vllm{}num_preemptions_total", "sglang{}num_retracted_requests_total", "0+15x40", 1),
}


def test_both_engines_in_both_spellings_are_one_family(promtool: Promtool):
    cases = {}
    for rule, (vllm, sglang, values, value) in SPELLINGS.items():
        for name in (vllm, sglang):
            for sign in ":_":
                spelt = name.format(sign)
                cases[spelt] = evaluated(of(spelt, values), is_recorded(rule, "9m", value))
    passed(promtool.test_each(cases))


def test_a_replica_that_is_scraped_directly_and_behind_its_router_counts_once(promtool: Promtool):
    both = {**of("vllm:num_requests_running", "4x40"), **of("vllm_num_requests_running", "5x40")}
    passed(promtool.test(both, promql_expr_test=[is_recorded(rules.RUNNING, "9m", 4)]))


def test_the_engines_of_one_server_and_the_queues_of_one_engine_add_up(promtool: Promtool):
    ranks = {**of("vllm:num_requests_running", "4x40"), **of("vllm:num_requests_running", "2x40", dp="1")}
    queues = {
        **of("sglang:num_queue_reqs", "4x40", "b:1"),
        **of("sglang:num_grammar_queue_reqs", "1x40", "b:1"),
        **of("sglang:num_decode_prealloc_queue_reqs", "2x40", "b:1"),
    }
    expected = [is_recorded(rules.RUNNING, "9m", 6), is_recorded(rules.WAITING, "9m", 7, "b:1")]
    passed(promtool.test({**ranks, **queues}, promql_expr_test=expected))


def test_ranks_of_one_scheduler_count_once_and_data_parallel_ones_each(promtool: Promtool):
    ranks = {
        **of("sglang:num_running_reqs", "4x40", tp_rank="0", pp_rank="0", dp_rank="0"),
        **of("sglang:num_running_reqs", "4x40", tp_rank="1", pp_rank="1", dp_rank="0"),
        **of("sglang:num_running_reqs", "2x40", tp_rank="2", pp_rank="0", dp_rank="1"),
    }
    passed(promtool.test(ranks, promql_expr_test=[is_recorded(rules.RUNNING, "9m", 6)]))


def test_what_has_not_happened_yet_is_zero_and_not_unknown(promtool: Promtool):
    """SGLang has no series of a counter before the first event."""
    running = of("sglang:num_running_reqs", "1x40")
    counted = (rules.PREEMPTIONS, rules.ABORTED, rules.TRANSFER_FAILURES, rules.GENERATED)
    passed(promtool.test(running, promql_expr_test=[is_recorded(rule, "9m", 0) for rule in counted]))


def test_shares_speeds_and_times_are_in_one_unit(promtool: Promtool):
    cases = {
        "hits of vLLM": evaluated(
            of("vllm:prefix_cache_hits_total", "0+30x40") | of("vllm:prefix_cache_queries_total", "0+120x40"),
            is_recorded(rules.PREFIX_HITS, "9m", 0.25),
        ),
        "hits of SGLang": evaluated(
            {
                **of("sglang:num_running_reqs", "1x40"),
                **of("sglang:cached_tokens_total", "0+20x40", cache_source="device"),
                **of("sglang:cached_tokens_total", "0+10x40", cache_source="host"),
                **of("sglang:prompt_tokens_total", "0+120x40", is_streaming="true"),
            },
            is_recorded(rules.PREFIX_HITS, "9m", 0.25),
        ),
        "NIXL": evaluated(
            of("vllm:nixl_bytes_transferred_sum", "0+3000000x40")
            | of("vllm:nixl_xfer_time_seconds_sum", "0+0.5x40")
            | of("vllm:nixl_xfer_time_seconds_count", "0+10x40"),
            is_recorded(rules.TRANSFER_SPEED, "9m", 6_000_000),
            is_recorded(rules.TRANSFER_TIME, "9m", 0.05),
        ),
        "transfers of SGLang": evaluated(
            of("sglang:kv_transfer_total_mb_sum", "0+3x40")
            | of("sglang:kv_transfer_latency_ms_sum", "0+500x40")
            | of("sglang:kv_transfer_latency_ms_count", "0+10x40"),
            is_recorded(rules.TRANSFER_SPEED, "9m", 6 * 2**20),
            is_recorded(rules.TRANSFER_TIME, "9m", 0.05),
        ),
        "weights of vLLM": evaluated(
            of("vllm:rl_weight_update_operation_duration_seconds_sum", "0+3x40", operation="update")
            | of("vllm:rl_weight_update_operation_duration_seconds_count", "0+2x40", operation="update")
            | of("vllm:rl_weight_update_operation_duration_seconds_sum", "0+9x40", operation="init"),
            is_recorded(rules.WEIGHT_UPDATE, "9m", 1.5),
        ),
        "weights of SGLang": evaluated(
            of("sglang:weight_load_duration_seconds", "1.5x40", tp_rank="0")
            | of("sglang:weight_load_duration_seconds", "1.25x40", tp_rank="1"),
            is_recorded(rules.WEIGHT_UPDATE, "9m", 1.5),
        ),
        "ended without an answer": evaluated(
            of("vllm:request_success_total", "0+15x40", finished_reason="abort")
            | of("vllm:request_success_total", "0+30x40", finished_reason="error")
            | of("vllm:request_success_total", "0+90x40", finished_reason="stop"),
            is_recorded(rules.ABORTED, "9m", 3),
        ),
    }
    passed(promtool.test_each(cases))


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (rules.QUEUE_TIME, ("vllm:request_queue_time_seconds", "sglang_queue_time_seconds")),
        (rules.FIRST_TOKEN, ("vllm_time_to_first_token_seconds", "sglang:time_to_first_token_seconds")),
        (rules.INTER_TOKEN, ("vllm:inter_token_latency_seconds", "sglang:inter_token_latency_seconds")),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_quantiles_come_from_the_histograms_of_each(promtool: Promtool, rule: Any, names: tuple[str, str]):
    series: dict[str, str] = {}
    for instance, name in zip(("a:1", "b:1"), names, strict=True):
        for le, rise in (("1", 50), ("2", 100), ("+Inf", 100)):
            series |= of(f"{name}_bucket", f"0+{rise}x40", instance, le=le)
    expected = [
        is_recorded(rule, "9m", value, instance, quantile=share)
        for instance in ("a:1", "b:1")
        for share, value in (("0.5", 1), ("0.95", 1.9), ("0.99", 1.98))
    ]
    passed(promtool.test(series, promql_expr_test=expected))


def firing(alert: Any, value: str, instance: str, **who: str) -> dict[str, Any]:
    text = alert.description.replace("{{ $value | humanize }}", value).replace("{{ $value }}", value)
    summary = alert.summary.replace("{{ $labels.rl_run_id }}", "r1").replace("{{ $labels.instance }}", instance)
    return {
        "exp_labels": {"severity": "warning", **RUN, "instance": instance, **who},
        "exp_annotations": {"summary": summary, "description": text, **links(alert.name, "otel-rl-serving")},
    }


def waiting(values: str) -> dict[str, str]:
    return of("vllm:num_requests_waiting", values)


def test_a_queue_that_only_grows_fires_until_it_no_longer_does(promtool: Promtool):
    growing = "0x40 0+2x160 320x120"
    alert = rules.QUEUE_GROWING
    who = {"job": "vllm", "model_name": "m"}
    moments = [
        alert_at("15m", alert),
        alert_at("40m", alert, firing(alert, "22", "a:1", **who)),
        alert_at("70m", alert),
    ]
    passed(promtool.test(waiting(growing), alert_rule_test=moments))


def test_queues_that_steps_fill_and_that_empty_again_stay_quiet(promtool: Promtool):
    step = "0x4 1000x2 1000-20x50 "  # a quarter of an hour
    cases = {
        "steps": step * 6,
        "a queue that stands": "500x360",
        "a small one": "0 1 0 2 1 0 3 0 1 " * 40,
        "a drain of an hour": "0x40 4000-16x250",
    }
    minutes = [f"{minute}m" for minute in range(5, 80, 3)]
    passed(
        promtool.test_each(
            {
                name: rule_test(waiting(values), promql_expr_test=fires("EngineQueueGrowing", (), minutes, **RUN))
                for name, values in cases.items()
            }
        )
    )


@pytest.mark.parametrize(
    "name",
    [
        "vllm:nixl_num_failed_transfers_total",
        "vllm_mooncake_num_failed_recvs_total",
        "sglang:num_transfer_failed_reqs_total",
        "sglang_num_bootstrap_failed_reqs_total",
    ],
)
def test_transfers_that_fail_fire_for_a_quarter_of_an_hour(promtool: Promtool, name: str):
    """A counter that is not there before the first failure fires as one that was 0."""
    engine = name[: name.index("num_") if name.startswith("sglang") else 5]
    running = "num_requests_running" if name.startswith("vllm") else "num_running_reqs"
    present = of(f"{engine.rstrip(':_')}:{running}", "1x240")
    cases = {
        "was 0": rule_test(
            present | of(name, "0x40 3x200"),
            promql_expr_test=fires("EngineTransferFailing", ("13m", "20m"), ("9m", "30m"), **RUN),
        ),
        "was not there": rule_test(
            present | of(name, "_x40 3x200"),
            promql_expr_test=fires("EngineTransferFailing", ("13m", "20m"), ("9m", "30m"), **RUN),
        ),
        "none": rule_test(present, promql_expr_test=fires("EngineTransferFailing", (), ("13m", "20m"), **RUN)),
    }
    passed(promtool.test_each(cases))


def test_a_replica_that_is_never_used_while_another_is_fires_until_it_is(promtool: Promtool):
    alert, who = rules.ENGINE_UNUSED, {"job": "sglang", "model_name": "m"}
    busy = of("sglang:num_running_reqs", "5x240")
    idle = of("sglang:num_running_reqs", "0x160 4x80", "b:1")
    moments = [
        alert_at("8m", alert),
        alert_at("30m", alert, firing(alert, "1", "b:1", **who)),
        alert_at("45m", alert),
    ]
    passed(promtool.test({**busy, **idle}, alert_rule_test=moments))


def test_replicas_that_are_used_now_and_then_or_all_idle_or_of_another_model_stay_quiet(promtool: Promtool):
    name = "vllm:num_requests_running"
    busy, idle = of(name, "5x240"), of(name, "0x240", "b:1")
    short = of("vllm:generation_tokens_total", "0x9 16x29 32x29 48x29 64x29 80x29 96x29 112x29", "b:1")
    other = {key.replace('model_name="m"', 'model_name="judge"'): values for key, values in idle.items()}
    cases = {
        "requests between two scrapes": {**busy, **idle, **short},
        "all idle": {**of(name, "0x240"), **idle},
        "another model": {**busy, **other},
        "one replica": idle,
    }
    minutes = [f"{minute}m" for minute in range(5, 55, 5)]
    passed(
        promtool.test_each(
            {
                case: rule_test(series, promql_expr_test=fires("EngineUnused", (), minutes, **RUN))
                for case, series in cases.items()
            }
        )
    )


def target(name: str, values: str, instance: str) -> dict[str, str]:
    return {name + labels(**RUN, job="engine", instance=instance): values}


def scraped(up: str, samples: str, instance: str = "a:1") -> dict[str, str]:
    return target("up", up, instance) | target("scrape_samples_scraped", samples, instance)


def test_an_engine_that_cannot_be_scraped_fires_until_it_can(promtool: Promtool):
    alert = rules.ENGINE_UNSCRAPED
    moments = [alert_at("9m", alert), alert_at("15m", alert, firing(alert, "1", "a:1")), alert_at("22m", alert)]
    cases = {
        "no answer": rule_test(scraped("1x39 0x39 1x40", "500x39 0x39 500x40"), alert_rule_test=moments),
        "too many series": rule_test(scraped("1x39 0x39 1x40", "500x39 100000x39 500x40"), alert_rule_test=moments),
        "no metric": rule_test(scraped("1x120", "500x39 0x39 500x40"), alert_rule_test=moments),
    }
    passed(promtool.test_each(cases))


def test_a_worker_that_its_router_no_longer_lists_fires_for_half_an_hour(promtool: Promtool):
    router = scraped("1x400", "900x400", "router:1")
    one = of("sglang_num_running_reqs", "1x400", "w1:1")
    dead = of("sglang_num_running_reqs", "1x80 stale", "w2:1")
    expected = fires("EngineUnscraped", ("24m", "45m"), ("19m", "60m"), **RUN, instance="w2:1")
    passed(promtool.test({**router, **one, **dead}, promql_expr_test=expected))


def test_a_run_whose_engines_end_together_and_an_engine_that_is_taken_from_the_list_stay_quiet(promtool: Promtool):
    worker, other = (of("sglang_num_running_reqs", "1x80 stale", name) for name in ("w1:1", "w2:1"))
    listed = of("vllm:num_requests_running", "1x80 stale") | target("up", "1x80 stale", "a:1")
    stays = of("vllm:num_requests_running", "1x200", "b:1") | scraped("1x200", "500x200", "b:1")
    minutes = [f"{minute}m" for minute in range(5, 50, 5)]
    quiet = fires("EngineUnscraped", (), minutes, **RUN)
    cases = {
        "the end of a run": rule_test({**worker, **other}, promql_expr_test=quiet),
        "an engine less": rule_test({**listed, **stays}, promql_expr_test=quiet),
    }
    passed(promtool.test_each(cases))
