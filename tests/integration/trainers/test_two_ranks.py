"""An unmodified GRPO program on two ranks: what `opentelemetry-instrument torchrun` records of it."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
import trl
from conformance.live_check import check
from packaging.version import Version
from runs import attributes, plain
from support.trl_runs import STEPS

from otel_rl.health import rule_table

LOCAL_SAMPLES_PER_STEP = 8
REWARDS = ("length_reward", "digit_reward")

#: Parent of every kind of span in a step; the evaluation and the checkpoint only where they happened.
PARENTS = {
    "rl.rank.step": "rl.loop",
    "rl.data_wait": "rl.loop",
    "rl.sample": "rl.rank.step",
    "rl.generate": "rl.sample",
    "rl.log_probs": "rl.rank.step",
    "rl.train": "rl.rank.step",
    "rl.forward": "rl.train",
    "rl.backward": "rl.train",
    "rl.optimizer": "rl.train",
    "rl.evaluate": "rl.rank.step",
    "rl.checkpoint": "rl.rank.step",
}
PER_STEP = {
    "rl.rank.step": 1,
    "rl.data_wait": 1,
    "rl.sample": 1,
    "rl.generate": 1,
    "rl.log_probs": 1,
    "rl.reward": 1 + len(REWARDS),
    "rl.train": 1,
    "rl.forward": 2,
    "rl.backward": 2,
    "rl.optimizer": 1,
}


@pytest.fixture(scope="module")
def ranks(watched_run):
    assert [process.rank for process in watched_run.processes] == [0, 1]
    return watched_run.processes


@pytest.fixture(scope="module")
def traces(ranks):
    """Iteration -> spans of both ranks, each with its rank."""
    by_id = defaultdict(list)
    for process in ranks:
        for span in process.spans:
            by_id[span["traceId"]].append((process.rank, span))
    roots = {
        attributes(span)["rl.loop.iteration"]: trace_id
        for trace_id, members in by_id.items()
        for _, span in members
        if span["name"] == "rl.loop"
    }
    return {iteration: by_id[trace_id] for iteration, trace_id in sorted(roots.items())}


def test_each_optimizer_step_is_one_trace_in_which_both_ranks_meet(traces):
    assert list(traces) == list(range(1, STEPS + 1))
    for iteration, members in traces.items():
        [(rank, root)] = [(rank, span) for rank, span in members if span["name"] == "rl.loop"]
        assert rank == 0
        assert not root.get("parentSpanId")
        steps = [(rank, span) for rank, span in members if span["name"] == "rl.rank.step"]
        assert sorted(rank for rank, _ in steps) == [0, 1]
        for rank, span in steps:
            assert span["parentSpanId"] == root["spanId"]
            assert attributes(span)["rl.rank"] == rank
            assert attributes(span)["rl.loop.iteration"] == iteration


def test_every_span_of_a_step_trace_asks_the_collector_to_keep_it(traces):
    for members in traces.values():
        silent = [(rank, span["name"]) for rank, span in members if attributes(span).get("rl.sampling.priority") != 1]
        assert not silent


def test_every_rank_has_the_phases_of_grpo_in_each_step(traces):
    for iteration, members in traces.items():
        for rank in (0, 1):
            names = Counter(span["name"] for owner, span in members if owner == rank and span["name"] != "rl.loop")
            expected = Counter(PER_STEP)
            if iteration % (STEPS // 2) == 0:
                expected["rl.evaluate"] += 1
            if iteration == STEPS:
                expected["rl.checkpoint"] += 1
            assert names == expected, f"step {iteration}, rank {rank}"
            assert 5 <= sum(names.values()) <= 25


def test_phases_lie_inside_their_parents_and_say_what_they_are(traces):
    for iteration, members in traces.items():
        by_id = {span["spanId"]: span for _, span in members}
        for _, span in members:
            if span["name"] == "rl.loop":
                continue
            parent = by_id[span["parentSpanId"]]
            values = attributes(span)
            assert values["rl.loop.iteration"] == iteration
            if span["name"] == "rl.reward":
                named = "rl.reward.name" in values
                assert parent["name"] == ("rl.reward" if named else "rl.rank.step")
            else:
                assert parent["name"] == PARENTS[span["name"]]
            # Ranks begin and end a step on their own, and wait for data before it; the rest lies inside the step.
            if span["name"] not in ("rl.rank.step", "rl.data_wait"):
                assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
                assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])
                assert values["rl.phase"] == span["name"].removeprefix("rl.")


def test_each_rank_waits_for_data_between_its_steps(traces):
    ended = dict.fromkeys((0, 1), 0)
    for members in traces.values():
        for rank in (0, 1):
            own = {span["name"]: span for owner, span in members if owner == rank}
            wait, step = own["rl.data_wait"], own["rl.rank.step"]
            assert ended[rank] <= int(wait["startTimeUnixNano"])
            assert wait["endTimeUnixNano"] == step["startTimeUnixNano"]
            ended[rank] = int(step["endTimeUnixNano"])


def test_each_reward_function_has_its_span(traces):
    for members in traces.values():
        names = Counter(
            (rank, attributes(span).get("rl.reward.name")) for rank, span in members if span["name"] == "rl.reward"
        )
        assert names == Counter((rank, name) for rank in (0, 1) for name in (None, *REWARDS))


def test_there_is_one_event_per_log_call_with_the_exact_values(ranks, watched_run):
    logged = [record for record in ranks[0].records if record["eventName"] == "rl.step"]
    history = watched_run.results[0]["history"]
    assert len(logged) == len(history)
    for record, entry in zip(logged, history, strict=True):
        body = plain(record["body"])
        assert {key: body[key] for key in entry if key != "step"} == {
            key: value for key, value in entry.items() if key != "step"
        }
        assert attributes(record)["rl.loop.iteration"] == entry["step"]
        assert attributes(record)["rl.step.last"] == entry["step"]
        assert attributes(record)["rl.step.first"] == entry["step"]
    assert not [record for record in ranks[1].records if record["eventName"] == "rl.step"]


def test_a_log_call_belongs_to_the_trace_of_its_step(ranks, traces):
    for record in ranks[0].records:
        if record["eventName"] == "rl.step":
            members = traces[attributes(record)["rl.loop.iteration"]]
            assert record["traceId"] == members[0][1]["traceId"]
            assert record["spanId"] in {span["spanId"] for rank, span in members if rank == 0}


def test_every_number_that_was_logged_is_a_gauge(ranks, watched_run):
    keys = {dict(key)["rl.trainer.metric.key"] for key in ranks[0].points["rl.trainer.metric"]}
    logged = {
        key
        for entry in watched_run.results[0]["history"]
        for key, value in entry.items()
        if isinstance(value, int | float) and key != "step"
    }
    assert logged <= keys
    assert "rl.trainer.metric" not in ranks[1].points


@pytest.mark.parametrize(
    ("metric", "key"),
    [
        ("rl.train.loss", "loss"),
        ("rl.train.grad_norm", "grad_norm"),
        ("rl.train.learning_rate", "learning_rate"),
        ("rl.train.kl", "kl"),
        ("rl.train.entropy", "entropy"),
        ("rl.train.clip_ratio", "clip_ratio/region_mean"),
        ("rl.environment.reward.mean", "reward"),
        ("rl.environment.reward.std", "reward_std"),
        ("rl.environment.episode.length.mean", "completions/mean_length"),
        ("rl.sample.truncated_ratio", "completions/clipped_ratio"),
        ("rl.sample.zero_variance_ratio", "frac_reward_zero_std"),
    ],
)
def test_the_registry_metric_has_the_value_that_was_logged_last(ranks, watched_run, metric, key):
    [last] = [entry[key] for entry in watched_run.results[0]["history"] if key in entry][-1:]

    assert ranks[0].value(metric) == pytest.approx(last, rel=1e-12)


def test_steps_tokens_and_samples_are_counted_once_over_all_ranks(ranks, watched_run):
    tokens = [entry["num_tokens"] for entry in watched_run.results[0]["history"] if "num_tokens" in entry][-1]

    assert ranks[0].value("rl.train.steps") == STEPS
    assert ranks[0].value("rl.train.tokens") == tokens
    assert not {"rl.train.steps", "rl.train.tokens"} & ranks[1].points.keys()
    assert [rank.value("rl.sample.samples") for rank in ranks] == [STEPS * LOCAL_SAMPLES_PER_STEP] * 2


def test_each_rank_has_the_scores_of_its_own_samples(ranks, watched_run):
    total = dict.fromkeys(REWARDS, 0.0)
    for rank in ranks:
        for name in REWARDS:
            point = rank.points["rl.reward.score"][("rl.reward.name", name),]
            assert int(point["count"]) == STEPS * LOCAL_SAMPLES_PER_STEP
            total[name] += point["sum"]
    means = [
        [entry[f"rewards/{name}/mean"] for entry in watched_run.results[0]["history"] if "loss" in entry]
        for name in REWARDS
    ]
    for name, mean in zip(REWARDS, means, strict=True):
        assert total[name] / (2 * STEPS * LOCAL_SAMPLES_PER_STEP) == pytest.approx(sum(mean) / STEPS, rel=1e-5)


def test_phase_durations_are_histograms_and_evaluation_does_not_count_as_sampling(ranks):
    for rank in ranks:
        for metric in ("rl.sample.duration", "rl.reward.duration", "rl.train.duration", "rl.loop.duration"):
            [point] = rank.points[metric].values()
            assert int(point["count"]) == STEPS, metric
        counts = {dict(key)["rl.phase"]: int(p["count"]) for key, p in rank.points["rl.phase.duration"].items()}
        assert counts == {
            "data_wait": STEPS,
            "generate": STEPS,
            "log_probs": STEPS,
            "forward": 2 * STEPS,
            "backward": 2 * STEPS,
            "optimizer": STEPS,
            "evaluate": 2,
            "checkpoint": 1,
        }


def test_collectives_are_counted_alike_on_both_ranks_and_per_step(ranks, traces):
    calls = [
        {
            (values["torch.distributed.operation"], values["torch.distributed.source"]): int(point["asInt"])
            for values, point in ((dict(key), point) for key, point in rank.points[name].items())
        }
        for rank in ranks
        for name in ["torch.distributed.collective.calls"]
    ]
    assert calls[0] == calls[1]
    # GRPOTrainer of TRL 0.27 only gathers; that of 1.16 reduces its statistics.
    reduces = {"all_reduce"} if Version(trl.__version__) >= Version("1") else set()
    assert {"all_gather"} | reduces <= {operation for operation, _ in calls[0]}
    for members in traces.values():
        steps = [attributes(span) for _, span in members if span["name"] == "rl.rank.step"]
        assert steps[0]["torch.distributed.calls"] == steps[1]["torch.distributed.calls"] > 0
        assert steps[0]["torch.distributed.bytes"] == steps[1]["torch.distributed.bytes"] > 0
        assert all(step["torch.distributed.wait_time"] > 0 for step in steps)
    counted = sum(
        attributes(span)["torch.distributed.calls"]
        for members in traces.values()
        for rank, span in members
        if rank == 0 and span["name"] == "rl.rank.step"
    )
    assert 0 < counted <= sum(calls[0].values())


def test_the_slowest_collectives_are_few_events_inside_the_step(traces):
    for members in traces.values():
        for _, span in members:
            if span["name"] != "rl.rank.step":
                continue
            for event in span.get("events", []):
                assert event["name"] == "torch.distributed.collective"
                assert int(span["startTimeUnixNano"]) <= int(event["timeUnixNano"]) <= int(span["endTimeUnixNano"])
            assert len(span.get("events", [])) <= 5


def test_the_resource_says_who_the_process_is(ranks):
    identities = {rank.resource["rl.run.id"] for rank in ranks}
    assert len(identities) == 1
    for rank in ranks:
        assert rank.resource["rl.system.name"] == "trl"
        assert rank.resource["rl.algorithm"] == "grpo"
        assert rank.resource["rl.role"] == "trainer"
        assert rank.resource["rl.rank"] == rank.rank
        assert rank.resource["rl.world_size"] == 2
        assert rank.value("torch.distributed.clock.offset") == 0.0


def test_all_three_instrumentors_are_active_and_nothing_went_wrong_inside(ranks, watched_run):
    for rank in ranks:
        for name in ("torch_distributed", "transformers", "trl"):
            assert rank.manifest["instrumentors"][f"otel_rl_{name}"]["state"] == "active", name
        assert not any(int(point["asInt"]) for point in rank.points["rl.telemetry.errors"].values())
    assert "internal error" not in watched_run.stderr


def test_the_first_rank_alone_judges_the_health_of_the_run(ranks):
    judging, other = ({dict(labels)["rl.health.code"] for labels in rank.points["rl.health"]} for rank in ranks)

    assert len(judging) == len(rule_table.RULES)
    assert other == set()


def test_everything_recorded_is_in_the_registry(watched_run):
    assert check(watched_run.data) == []
