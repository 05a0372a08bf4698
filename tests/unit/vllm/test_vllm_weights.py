"""The size of an update is read from its arguments; a version rises with the first generation after a change."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from otel_rl.instrumentors.vllm.operations import begin_rpc
from otel_rl.instrumentors.vllm.weights import Weights, add_version, of_engine, size_of
from otel_rl.semconv import attributes


class Engine:
    """Can be referred to weakly, as vLLM's engines can."""


UPDATE = {"names": ["a", "b"], "shapes": [[2, 3], [4]], "dtype_names": ["bfloat16", "float32"]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((UPDATE,), 12 + 16),
        ((SimpleNamespace(update_info=UPDATE),), 28),
        (({"update_info": [UPDATE, UPDATE]},), 56),
        (([("a", SimpleNamespace(nbytes=100)), ("b", SimpleNamespace(nbytes=28))],), 128),
        (({"shapes": [[8]], "dtype_names": ["torch.float8_e4m3fn"]},), 8),
        (({"shapes": 3, "dtype_names": None},), None),
        (("name", None, 1), None),
        ((), None),
    ],
)
def test_the_size_of_an_update_is_what_its_arguments_bring_or_describe(given, expected):
    assert size_of(*given) == expected


def test_arguments_that_hold_themselves_are_looked_at_within_bounds():
    endless: list[object] = []
    endless += [endless, {"again": endless}]
    assert size_of(endless) is None


def test_parameters_brought_one_by_one_make_one_version(recorded):
    weights = Weights()
    assert weights.version() == "0"
    for _ in range(3):
        weights.moved()
    assert [weights.version(), weights.version()] == ["1", "1"]
    [point] = recorded.metrics()["rl.sync.updates"]
    assert point.value == 1


def test_a_generation_amid_an_update_is_of_the_version_before(recorded):
    weights = Weights()
    weights.started()
    weights.moved()
    assert weights.version() == "0"
    weights.changed("step-7")
    assert weights.version() == "step-7"


def test_a_change_without_a_name_after_one_with_a_name_counts_on(recorded):
    weights = Weights()
    weights.changed("v1")
    assert weights.version() == "v1"
    weights.moved()
    assert weights.version() == "2"


def test_a_name_that_follows_the_finish_of_an_update_names_that_update(recorded):
    weights = Weights()
    weights.changed()
    weights.changed("v1")
    assert weights.version() == "v1"
    [point] = recorded.metrics()["rl.sync.updates"]
    assert point.value == 1


def test_the_weights_of_an_llm_are_those_of_its_engine(recorded):
    engine = Engine()
    assert of_engine(SimpleNamespace(llm_engine=engine)) is of_engine(engine)


def test_a_version_that_the_program_gave_its_rollout_stays(recorded):
    import otel_rl

    values: dict[str, object] = {}
    with otel_rl.rollout("r", policy_version=12):
        add_version(values, Engine())
    assert values == {}
    add_version(values, Engine())
    assert values == {attributes.RL_POLICY_VERSION: "0"}


@pytest.mark.parametrize("method", ["check_health", lambda worker: worker.rank, "init_process_group"])
def test_calls_of_workers_that_bring_no_weights_are_not_followed(method, recorded):
    assert begin_rpc(Engine(), method) is None


def loads(worker):
    worker.model.load_weights([])


@pytest.mark.parametrize("method", ["update_weights_from_ipc", "batch_update_named_params", loads])
def test_calls_of_workers_that_bring_weights_are_operations(method, recorded):
    engine = Engine()
    operation = begin_rpc(engine, method, args=({"a": SimpleNamespace(nbytes=10)},))
    operation.end(None)
    span = recorded.span("rl.sync")
    assert span.attributes[attributes.RL_SYNC_OPERATION] == getattr(method, "__name__", method)
    assert span.attributes[attributes.RL_SYNC_SIZE] == 10
    assert of_engine(engine).version() == "1"
