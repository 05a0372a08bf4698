"""Versions of the weights by engine, on real servers: a judge beside, a sync that left one out, a resume."""

from __future__ import annotations

import contextlib
import signal

import httpx
import pytest
from support.engine_server import META_INFO, SGLANG, EngineServer

import otel_rl
from otel_rl.training import engine_versions, trajectories

BEHIND, LOWEST, HIGHEST = (
    f"rl.rollout.{name}" for name in ("versions_behind", "policy_version.min", "policy_version.max")
)


class Engines:
    """Servers that answer with versions of their own."""

    def __init__(self, servers):
        self._servers = servers

    def name(self, number, model=""):
        return f"127.0.0.1:{self._servers[number].server_port} {model}".strip()

    def ask(self, number, version, model=None, **meta):
        meta = {**META_INFO, "weight_version": str(version), **meta}
        self._servers[number].answers["/generate"] = lambda _: {**SGLANG, "meta_info": meta}
        body = {"text": "hi"} if model is None else {"text": "hi", "model": model}
        httpx.post(f"{self._servers[number].url}/generate", json=body).raise_for_status()

    def update(self, number, version):
        url = f"{self._servers[number].url}/update_weights_from_disk"
        httpx.post(url, json={"model_path": "/ckpt", "weight_version": str(version)})

    def refuse(self, number, version):
        self._servers[number].status = 400
        self.update(number, version)
        self._servers[number].status = 200


@pytest.fixture
def engines(instrumented):
    engine_versions.forget()
    with contextlib.ExitStack() as stack:
        yield Engines([stack.enter_context(EngineServer()) for _ in range(3)])
    engine_versions.forget()


def rows(recorded):
    trajectories.record()
    found = []
    for record in recorded.events("rl.trajectories"):
        columns = {key: value for key, value in record.body.items() if isinstance(value, list)}
        found += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return found


def rollout_of(engines, *calls, **given):
    with otel_rl.rollout(**given):
        for call in calls:
            engines.ask(*call)


def test_another_engine_with_versions_of_its_own_makes_no_rollout_stale(engines, instrumented):
    for version in (1, 2, 3):
        rollout_of(engines, (0, version))
    rollout_of(engines, (1, 900))
    rollout_of(engines, (0, 4))

    found = rows(instrumented)
    assert [row[BEHIND] for row in found] == [0] * 5
    assert found[-1]["rl.rollout.engines"] == engines.name(0)
    [point] = instrumented.metrics()["rl.rollout.staleness"]
    assert (point.count, point.sum) == (5, 0)


def test_a_signal_handler_may_end_a_rollout_while_versions_of_another_are_compared(engines, instrumented, monkeypatch):
    compare, handled = engine_versions._policy, []

    def handler(*_):
        handled.append(True)
        rollout_of(engines, (1, 7))

    def compare_and_interrupt(*arguments):
        if not handled:
            signal.raise_signal(signal.SIGUSR1)
        return compare(*arguments)

    monkeypatch.setattr(engine_versions, "_policy", compare_and_interrupt)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        rollout_of(engines, (0, 1))
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert [row[HIGHEST] for row in rows(instrumented)] == [7, 1]


def test_models_of_one_server_have_versions_of_their_own(engines, instrumented):
    rollout_of(engines, (0, 900, "judge"))
    rollout_of(engines, (0, 4, "policy"))

    assert [row[BEHIND] for row in rows(instrumented)] == [0, 0]


def test_versions_of_a_rollout_are_those_of_the_engine_that_answers_most(engines, instrumented):
    rollout_of(engines, (0, 3), (1, 900), (0, 4))

    [row] = rows(instrumented)
    assert (row[LOWEST], row[HIGHEST], row[BEHIND]) == (3, 4, 1)
    assert row["rl.rollout.engines"] == f"{engines.name(0)}, {engines.name(1)}"
    assert row["rl.rollout.engine_versions"] == [4, 900]
    assert row["rl.rollout.engine_versions_behind"] == [0, 0]


def test_an_engine_that_a_sync_left_out_is_behind_the_others(engines, instrumented):
    for version in (1, 2):
        rollout_of(engines, (0, version))
        rollout_of(engines, (1, version))
    for version in (3, 4):
        rollout_of(engines, (0, version))
        rollout_of(engines, (1, 2))

    assert [row[BEHIND] for row in rows(instrumented)] == [0, 0, 0, 0, 0, 1, 0, 2]


def test_an_engine_that_skipped_a_sync_is_behind_the_trainer_s_own_version(engines, instrumented):
    for version in (1, 2):
        rollout_of(engines, (0, version), policy_version=version)
    rollout_of(engines, (0, 2), policy_version=3)
    rollout_of(engines, (0, 2), policy_version=4)

    found = rows(instrumented)
    assert [row[BEHIND] for row in found] == [0, 0, 1, 2]
    assert [row["rl.rollout.engine_versions_behind"] for row in found] == [[0], [0], [1], [2]]


def test_a_version_of_the_program_that_counts_otherwise_is_not_compared(engines, instrumented):
    for number in range(1, 6):
        rollout_of(engines, (0, 2 * number), policy_version=number)
    for number in range(6, 12):
        rollout_of(engines, (0, number - 1), policy_version=number)

    assert {row["rl.policy.version"] for row in rows(instrumented)} >= {"1", "11"}
    assert all(row[BEHIND] == 0 for row in rows(instrumented)[:5])


def test_an_engine_that_the_trainer_gave_a_version_is_behind_the_last_one_given(engines, instrumented):
    for number in (0, 1):
        engines.update(number, 1)
    rollout_of(engines, (0, 1), (1, 1))
    engines.update(0, 2)
    engines.refuse(1, 2)
    rollout_of(engines, (0, 2))
    rollout_of(engines, (1, 1))
    rollout_of(engines, (2, 1))

    assert [row[BEHIND] for row in rows(instrumented)] == [0, 0, 1, 0]


def test_tokens_that_older_weights_made_are_counted_by_range(engines, instrumented):
    engines.update(0, 13)
    ranges = [{"version": "11", "start": 0, "end": 310}, {"version": "13", "start": 310, "end": 512}]
    with otel_rl.rollout("r"):
        engines.ask(0, 13, weight_versions=ranges)
        engines.ask(0, 12)

    first, second = (span.attributes for span in instrumented.spans if span.name == "text_completion")
    assert first["rl.inference.weight_versions"] == ("11", "13")
    assert first["rl.inference.weight_version_tokens"] == (310, 202)
    assert "rl.inference.weight_versions" not in second
    [row] = rows(instrumented)
    assert (row[LOWEST], row[HIGHEST], row[BEHIND]) == (11, 13, 2)
    assert row["rl.rollout.tokens_behind"] == 310 + META_INFO["completion_tokens"]


def test_versions_of_any_type_in_a_list_of_ranges_cost_no_call(engines, instrumented):
    ranges = [{"version": ["x"], "start": 0, "end": 1}, {"version": 12, "start": 1, "end": 3}, {"version": "12"}, 7]
    with otel_rl.rollout("r"):
        engines.ask(0, 12, weight_versions=ranges)

    assert instrumented.span("text_completion").attributes["rl.inference.weight_version_tokens"] == (1, 2)


def test_versions_begin_anew_when_the_trainer_gives_a_lower_one(engines, instrumented):
    engines.update(0, 8)
    rollout_of(engines, (0, 8))
    engines.update(0, 2)
    rollout_of(engines, (0, 2))

    assert [row[BEHIND] for row in rows(instrumented)] == [0, 0]


def test_versions_begin_anew_when_answers_stay_lower(engines, instrumented):
    for version in (3, 4, *[2] * engine_versions.FALLEN, 2, 3):
        rollout_of(engines, (0, version))

    behind = [row[BEHIND] for row in rows(instrumented)]
    assert behind[:3] == [0, 0, 2]
    assert behind[-3:] == [0, 0, 0]


def test_a_late_answer_of_an_older_version_is_no_resume(engines, instrumented):
    for version in (4, 3, 4, 3, 4):
        rollout_of(engines, (0, version))

    assert [row[BEHIND] for row in rows(instrumented)] == [0, 1, 0, 1, 0]


def test_engines_are_bounded(engines, instrumented, monkeypatch):
    monkeypatch.setattr(engine_versions, "MAXIMUM_ENGINES", 8)
    for number in range(engine_versions.MAXIMUM_ENGINES + 5):
        rollout_of(engines, (0, 7, f"adapter-{number}"))

    assert len(engine_versions._engines) == engine_versions.MAXIMUM_ENGINES
    assert len(rows(instrumented)) == engine_versions.MAXIMUM_ENGINES + 5
