"""Settings of the program: which are recorded, once and without secrets, and by which process."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from enum import Enum

import pytest
from support import growth

from otel_rl.core import settings
from otel_rl.process import process_identity, program_facts
from otel_rl.telemetry import deferral, drops, run_span
from otel_rl.training import configuration
from otel_rl.training.configuration import (
    MAXIMUM_RECORDS,
    MAXIMUM_SETTINGS,
    MAXIMUM_SOURCES,
    MAXIMUM_VALUE,
    record_configuration,
)

EVENT = "rl.run.configuration"


@pytest.fixture(autouse=True)
def _forgotten(recorded, monkeypatch):
    monkeypatch.setattr(run_span, "own_records", {"traces": 1, "logs": 2})
    # Whatever other tests have imported: this process leads, and knows it.
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity(id="run", leads=True))
    monkeypatch.setattr(process_identity, "_frozen", True)
    configuration._forget()
    drops.reset()
    yield
    configuration._forget()


def recorded_bodies(recorded):
    return [record.body for record in recorded.events(EVENT)]


def test_settings_are_one_record_with_the_names_of_all_levels(recorded):
    record_configuration("wandb", {"lr": 1e-6, "model": {"name": "tiny", "layers": 2, "extra": {}}, "stop": ["a", "b"]})

    (record,) = recorded.events(EVENT)
    assert record.attributes["rl.run.configuration.source"] == "wandb"
    assert "rl.run.configuration.left_out" not in record.attributes
    assert record.body == {
        "lr": 1e-6,
        "model.name": "tiny",
        "model.layers": 2,
        "model.extra": "{}",
        "stop": '["a", "b"]',
    }


class Strategy(Enum):
    NO = "no"


@dataclass
class Arguments:
    seed: int = 42
    evaluate: Strategy = Strategy.NO
    hub_token: str | None = "hf_0123456789"
    private: str = field(default="x", repr=False)


def test_a_data_class_is_read_by_field_without_what_it_hides(recorded):
    record_configuration("transformers", Arguments())

    assert recorded_bodies(recorded) == [{"seed": 42, "evaluate": "no", "hub_token": "***"}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_key", "abc"),
        ("wandb.api_key", "abc"),
        ("hub_token", "abc"),
        ("HF_TOKEN", "abc"),
        ("clientSecret", "abc"),
        ("password", "abc"),
        ("password", 12345678),
        ("db_passwd", "abc"),
        ("authorization", "Bearer abc"),
        ("cookies.sid", "abc"),
        ("credentials", ["user", "word"]),
    ],
)
def test_a_setting_with_the_name_of_a_secret_is_removed(recorded, name, value):
    record_configuration("test", {name: value})

    assert recorded_bodies(recorded) == [{name: "***"}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_key_value_heads", 8),
        ("key_value_cache", "fp8"),
        ("tokenizer", "Qwen/Qwen3-0.6B"),
        ("max_tokens", 512),
        ("eos_token", "<|im_end|>"),
        ("pad_token_id", 0),
        ("reward_fn_key", "data_source"),
        ("hub_token", None),
        ("use_auth_token", False),
        ("monkey", "see"),
    ],
)
def test_a_setting_whose_name_only_sounds_like_a_secret_stays(recorded, name, value):
    record_configuration("test", {name: value})

    assert recorded_bodies(recorded) == [{name: value}]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://user:word@host/path", "https://***@host/path"),
        ("curl -H 'Authorization: Bearer abc'", "curl -H 'Authorization: ***"),
        ("hf_abcdefghijABCDEFGHIJ0123", "***"),
        ([{"name": "judge", "api_key": "abc"}], '[{"name": "judge", "api_key": "***"}]'),
    ],
)
def test_secrets_inside_of_a_value_are_removed(recorded, value, shown):
    record_configuration("test", {"setting": value})

    (body,) = recorded_bodies(recorded)
    assert body["setting"].startswith(shown)
    assert "abc" not in body["setting"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (["--password", "abc", "--lr", "1"], '["--password", "***", "--lr", "1"]'),
        (["--password", 12345678, "--steps", 10], '["--password", "***", "--steps", 10]'),
        (["--api-key abc"], '["--api-key ***"]'),
        ([["train.py", "--api-key", "abc"]], '[["train.py", "--api-key", "***"]]'),
        ([{"name": "password", "value": "abc"}], '[{"name": "password", "value": "***"}]'),
        ([{"Name": "API_KEY", "Value": {"a": "abc"}}], '[{"Name": "API_KEY", "Value": "***"}]'),
        ([["x-api-key", "abc"], ["accept", "json"]], '[["x-api-key", "***"], ["accept", "json"]]'),
    ],
)
def test_secrets_in_lists_of_arguments_and_in_pairs_are_removed(recorded, value, shown):
    record_configuration("test", {"setting": value})

    assert recorded_bodies(recorded) == [{"setting": shown}]


@pytest.mark.parametrize(
    "value",
    [
        ["q_proj", "k_proj", 1, 2.5, None, True],
        [{"name": "lr", "value": 1e-05}, {"name": "password", "value": None}],
        ["--max_tokens", "512", "--seed", "-1"],
        [["a", "b"], [0.9, 0.999]],
    ],
)
def test_lists_without_secrets_stay(recorded, value):
    record_configuration("test", {"setting": value})

    assert recorded_bodies(recorded) == [{"setting": json.dumps(value)}]


@pytest.mark.parametrize("piece", ["a:", "--x ", "//", "[", "a", "a1B", '{"a":'])
def test_long_texts_do_not_hold_an_io_thread_up(piece):
    assert growth.is_in_proportion(lambda length: configuration._shown("setting", [piece * length] * 10), 5_000)


def test_of_a_long_list_no_more_is_searched_for_secrets_than_of_a_short_one(monkeypatch):
    searched = []
    monkeypatch.setattr(program_facts, "_without_keys", lambda text: searched.append(text) or text)
    configuration._shown("setting", ["a" * 1_000] * 1_000)
    of_the_short = len(searched)
    configuration._shown("setting", ["a" * 1_000] * 2_000)

    assert len(searched) == 2 * of_the_short


def test_only_what_has_changed_is_recorded_again(recorded):
    record_configuration("wandb", {"lr": 1.0, "seed": 1})
    record_configuration("wandb", {"lr": 1.0, "seed": 1})
    record_configuration("wandb", {"lr": 2.0, "note": "new"})
    record_configuration("mlflow", {"lr": 1.0})

    assert recorded_bodies(recorded) == [{"lr": 1.0, "seed": 1}, {"lr": 2.0, "note": "new"}, {"lr": 1.0}]


def test_listeners_get_what_is_recorded_without_secrets(recorded, monkeypatch):
    told = []
    monkeypatch.setattr(configuration.listeners, "callbacks", [lambda *given: told.append(given)])
    record_configuration("wandb", {"lr": 0.1, "api_key": "abc123def"})
    (body,) = recorded_bodies(recorded)
    assert told == [("wandb", body)]
    assert "abc123def" not in str(told)


def test_calls_before_an_export_are_one_record(idle_io_thread, recorded):
    for number in range(5):
        record_configuration("mlflow", {f"parameter {number}": number})
    deferral.drain_all()

    assert recorded_bodies(recorded) == [{f"parameter {number}": number for number in range(5)}]


def test_settings_beyond_the_bound_are_counted(recorded):
    record_configuration("test", {f"setting {number}": number for number in range(MAXIMUM_SETTINGS + 30)})

    (record,) = recorded.events(EVENT)
    assert len(record.body) == MAXIMUM_SETTINGS
    assert record.attributes["rl.run.configuration.left_out"] == 30


def test_a_long_value_is_cut(recorded):
    record_configuration("test", {"prompt": "word " * 1000})

    (body,) = recorded_bodies(recorded)
    assert len(body["prompt"]) <= MAXIMUM_VALUE


def test_a_record_is_short_enough_for_a_line_of_loki(recorded):
    record_configuration("test", {f"setting {number}": "word " * 200 for number in range(MAXIMUM_SETTINGS)})

    (record,) = recorded.events(EVENT)
    assert len(str(record.body)) < 120_000
    assert record.attributes["rl.run.configuration.left_out"] == MAXIMUM_SETTINGS - len(record.body)


def test_a_configuration_that_changes_for_ever_has_a_bounded_number_of_records(recorded):
    for number in range(MAXIMUM_RECORDS + 3):
        record_configuration("wandb", {"step": number})

    assert len(recorded_bodies(recorded)) == MAXIMUM_RECORDS
    assert drops.snapshot() == {("logs", configuration.LIMIT): 3}


def test_sources_beyond_the_bound_are_counted(recorded):
    for number in range(MAXIMUM_SOURCES + 2):
        record_configuration(f"source {number}", {"a": 1})

    assert len(recorded_bodies(recorded)) == MAXIMUM_SOURCES
    assert drops.snapshot() == {("logs", configuration.LIMIT): 2}


def test_settings_of_several_threads_are_all_recorded(idle_io_thread, recorded):
    def give(first):
        for number in range(first, first + 20):
            record_configuration("mlflow", {f"parameter {number}": number})
            deferral.drain_all()

    threads = [threading.Thread(target=give, args=(20 * place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    deferral.drain_all()

    given = {name: value for body in recorded_bodies(recorded) for name, value in body.items()}
    assert given == {f"parameter {number}": number for number in range(60)}


def test_only_the_leading_process_records_settings(recorded, monkeypatch):
    follower = process_identity.ProcessIdentity(id="run", rank=1, world_size=2, leads=False)
    monkeypatch.setattr(process_identity, "_current", follower)

    record_configuration("trl", {"lr": 1.0})

    assert recorded_bodies(recorded) == []


def test_without_arguments_settings_are_not_recorded_either(recorded, monkeypatch):
    monkeypatch.setattr(settings, "_current", settings.Settings(arguments="off"))

    record_configuration("trl", {"lr": 1.0})

    assert recorded_bodies(recorded) == []


def test_the_function_of_the_user_redacts_values(recorded, monkeypatch):
    monkeypatch.setattr(configuration.redaction, "text", lambda value, _: value.replace("anna", "[name]"))

    record_configuration("trl", {"output_dir": "/home/anna/run"})

    assert recorded_bodies(recorded) == [{"output_dir": "/home/[name]/run"}]


class Broken(dict):
    def items(self):
        raise RuntimeError("mine")


def test_a_configuration_that_cannot_be_read_breaks_nothing(recorded):
    record_configuration("wandb", Broken(a=1))

    assert recorded_bodies(recorded) == []
    assert drops.snapshot() == {("logs", "unsupported_type"): 1}
