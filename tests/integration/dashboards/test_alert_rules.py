"""The rules as Prometheus evaluates them, through ``promtool test rules``: they fire, stay quiet and resolve."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from promtool_rules import Promtool, alert_at, labels, links, passed, rule_test

from dashboards.build import GENERATED
from dashboards.lib.names import label_name, prometheus_name
from dashboards.rules.alerts import ENTROPY_COLLAPSE, RANK_LATE, RANK_STRAGGLING
from dashboards.rules.recording import ENTROPY_LEVEL, STRAGGLER_SCORE, WAIT_SHARE
from otel_rl.semconv import attributes, metrics

if TYPE_CHECKING:
    from pathlib import Path


RUN = {label_name(attributes.RL_RUN_ID): "r1"}
ROLE = {label_name(attributes.RL_ROLE): "trainer"}


@pytest.fixture
def promtool(promtool: Promtool) -> Promtool:
    """Only with the rules about runs and their learning."""
    return replace(promtool, files="[ar]*.yaml")


def waits(values: list[str], *, operation: str = "all_reduce", group: str = "world", run: str = "r1") -> dict[str, str]:
    """The wait counters of ranks 0, 1, ... of a run."""
    name = prometheus_name(metrics.TORCH_DISTRIBUTED_COLLECTIVE_WAIT_TIME)
    kind = {
        label_name(attributes.TORCH_DISTRIBUTED_OPERATION): operation,
        label_name(attributes.TORCH_DISTRIBUTED_GROUP_NAME): group,
    }
    rank = label_name(attributes.RL_RANK)
    return {
        name + labels(**{**RUN, label_name(attributes.RL_RUN_ID): run}, **ROLE, **kind, **{rank: str(index)}): value
        for index, value in enumerate(values)
    }


def entropy(values: str) -> dict[str, str]:
    return {prometheus_name(metrics.RL_TRAIN_ENTROPY) + labels(**RUN): values}


def straggling(rank: str, share: str) -> dict[str, Any]:
    return {
        "exp_labels": {"severity": "warning", **RUN, **ROLE, label_name(attributes.RL_RANK): rank},
        "exp_annotations": {
            "summary": f"Rank {rank} of run r1 keeps the other ranks waiting",
            "description": f"The other ranks spend {share} more of their time waiting in collectives than rank {rank}, "
            "over 10m: it arrives last, and the whole run is that much slower.",
            **links("RankStraggling", "otel-rl-ranks-collectives"),
        },
    }


def collapsed(share: str) -> dict[str, Any]:
    return {
        "exp_labels": {"severity": "warning", **RUN},
        "exp_annotations": {
            "summary": "The policy of run r1 has nearly stopped exploring",
            "description": f"Entropy is at {share} of its highest value in this run: samples of one prompt become "
            "alike, their advantages vanish, and further steps teach little.",
            **links("EntropyCollapse", "otel-rl-run-overview"),
        },
    }


def test_promtool_accepts_every_generated_rule_file(prometheus_programs: Path):
    files = sorted((GENERATED / "prometheus").glob("*.yaml"))
    result = subprocess.run(
        [prometheus_programs / "promtool", "check", "rules", "--lint=all", "--lint-fatal", *files],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    passed(result)


def test_of_two_ranks_the_one_that_does_not_wait_is_the_straggler(promtool: Promtool):
    # Rank 0 waits 1 % of its time, rank 1 waits 40 % for it; from minute 60 on both wait alike.
    series = waits(["0+0.15x240 42+6x160", "0+6x400"])
    passed(
        promtool.test(
            series,
            alert_rule_test=[
                alert_at("9m", RANK_STRAGGLING),
                alert_at("30m", RANK_STRAGGLING, straggling("0", "39%")),
                alert_at("80m", RANK_STRAGGLING),
            ],
        )
    )


def test_of_eight_ranks_only_the_straggler_fires(promtool: Promtool):
    series = waits([*["0+4.5x240"] * 3, "0+0.75x240", *["0+4.5x240"] * 4])
    passed(promtool.test(series, alert_rule_test=[alert_at("40m", RANK_STRAGGLING, straggling("3", "25%"))]))


def test_partners_that_a_straggler_delays_in_another_group_are_not_blamed(promtool: Promtool):
    # Ranks 0 and 1 share one group, 0-2 and 1-3 another. 0 is slow: 1 waits for it in the first group and arrives
    # late in the second, where 2 and 3 wait.
    series = {
        **waits(["0+0x240", "0+3x240", "0+0x240", "0+0x240"], group="tensor"),
        **waits(["0+0x240", "0+0x240", "0+3x240", "0+3x240"], group="data"),
    }
    passed(promtool.test(series, alert_rule_test=[alert_at("40m", RANK_STRAGGLING, straggling("0", "20%"))]))


NO_STRAGGLER = {
    "all wait alike because the network is slow": waits(["0+6x240"] * 4),
    "one rank is merely fast and waits for all others": waits(["0+0.15x240", "0+0.15x240", "0+0.15x240", "0+6x240"]),
    "nobody waits": waits(["0+0x240"] * 2),
    "a single rank has no peers": waits(["0+6x240"]),
    "two runs are never compared": {**waits(["0+0.15x240"]), **waits(["0+6x240"], run="r2")},
    "a pause shorter than the alert's patience": waits(["0+6x100 600+0.15x20 603+6x120", "0+6x240"]),
}


def test_no_rank_is_called_a_straggler_without_reason(promtool: Promtool):
    moments = [alert_at(f"{minute}m", RANK_STRAGGLING) for minute in range(5, 60, 5)]
    passed(promtool.test_each({why: rule_test(told, alert_rule_test=moments) for why, told in NO_STRAGGLER.items()}))


def late(values: str, rank: str = "3") -> dict[str, str]:
    """The gauge of the pack, from the first rank of a node."""
    name = prometheus_name(metrics.RL_STRAGGLER_LOST_SHARE)
    return {name + labels(**RUN, **{label_name(attributes.RL_STRAGGLER_RANK): rank}): values}


def test_a_rank_that_its_node_waits_for_is_named_until_it_is_late_no_more(promtool: Promtool):
    expected = {
        "exp_labels": {"severity": "warning", **RUN, label_name(attributes.RL_STRAGGLER_RANK): "3"},
        "exp_annotations": {
            "summary": "Rank 3 of run r1 is late again and again",
            "description": "The other ranks of its node lose 25% of a step to it. The event rl.straggler in the run's"
            " logs names the operation, the phase, and the ranks that are late beside it.",
            **links("RankLate", "otel-rl-ranks-collectives"),
        },
    }
    # 15 s between two values: late from minute 5 to 15, and after that without a value.
    series = late("0.02x19 0.25x39 _x80")
    moments = [
        alert_at("4m", RANK_LATE),
        alert_at("6m", RANK_LATE),
        alert_at("10m", RANK_LATE, expected),
        alert_at("25m", RANK_LATE),
    ]
    passed(promtool.test(series, alert_rule_test=moments))


def test_a_single_late_step_is_no_alert(promtool: Promtool):
    series = late("0.02x19 0.9x3 0.02x80")
    passed(promtool.test(series, alert_rule_test=[alert_at(f"{minute}m", RANK_LATE) for minute in range(1, 20)]))


def test_the_straggler_alert_resolves_after_the_run_has_ended(promtool: Promtool):
    series = waits(["0+0.15x120", "0+6x120"])
    moments = [alert_at("29m", RANK_STRAGGLING, straggling("0", "39%")), alert_at("45m", RANK_STRAGGLING)]
    passed(promtool.test(series, alert_rule_test=moments))


def test_recorded_series_have_the_meaning_that_their_rule_states(promtool: Promtool):
    series = {**waits(["0+0.15x240", "0+6x240"]), **entropy("2x40 1x40")}
    rank = label_name(attributes.RL_RANK)

    def sample(name: str, value: float, **extra: str) -> dict[str, Any]:
        return {"labels": name + labels(**RUN, **extra), "value": value}

    def expect(name: str, *samples: dict[str, Any]) -> dict[str, Any]:
        return {"expr": f"round({name}, 0.001)", "eval_time": "20m", "exp_samples": list(samples)}

    zero, one = {**ROLE, rank: "0"}, {**ROLE, rank: "1"}
    passed(
        promtool.test(
            series,
            promql_expr_test=[
                expect(WAIT_SHARE.name, sample("", 0.01, **zero), sample("", 0.4, **one)),
                expect(STRAGGLER_SCORE.name, sample("", 0.39, **zero), sample("", -0.39, **one)),
                expect(ENTROPY_LEVEL.name, sample("", 0.5)),
            ],
        )
    )


def test_entropy_collapse_fires_on_a_cliff_and_resolves_when_entropy_comes_back(promtool: Promtool):
    series = entropy("2x120 0.1x80 1x120")
    passed(
        promtool.test(
            series,
            alert_rule_test=[
                alert_at("29m", ENTROPY_COLLAPSE),
                alert_at("39m", ENTROPY_COLLAPSE),
                alert_at("45m", ENTROPY_COLLAPSE, collapsed("5%")),
                alert_at("52m", ENTROPY_COLLAPSE),
            ],
        )
    )


def test_entropy_collapse_resolves_after_the_run_has_ended(promtool: Promtool):
    series = entropy("2x40 0.1x80")
    moments = [alert_at("29m", ENTROPY_COLLAPSE, collapsed("5%")), alert_at("40m", ENTROPY_COLLAPSE)]
    passed(promtool.test(series, alert_rule_test=moments))


NO_COLLAPSE = {
    "it falls slowly to half": "2-0.005x200",
    "it has been low from the start": "0.05x240",
    "one logged value is an outlier": "2x100 0.01x1 2x100",
    "it is not above zero, as of a continuous policy": "-3x240",
}


def test_entropy_is_not_called_collapsed_without_reason(promtool: Promtool):
    moments = [alert_at(f"{minute}m", ENTROPY_COLLAPSE) for minute in range(5, 60, 5)]
    cases = {why: rule_test(entropy(values), alert_rule_test=moments) for why, values in NO_COLLAPSE.items()}
    passed(promtool.test_each(cases))


def test_a_wrong_expectation_makes_promtool_fail(promtool: Promtool):
    result = promtool.test(waits(["0+0.15x240", "0+6x240"]), alert_rule_test=[alert_at("40m", RANK_STRAGGLING)])
    assert result.returncode != 0
