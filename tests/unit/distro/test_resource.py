"""The resource follows the run's identity, through the SDK's merges too."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.resources import Resource

from otel_rl.pipeline import resource
from otel_rl.process import process_identity


@pytest.fixture(autouse=True)
def own_run(monkeypatch):
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity())
    monkeypatch.setattr(process_identity, "_listeners", [])
    monkeypatch.setattr(resource, "_identity", {})


def test_identity_that_becomes_known_later_reaches_every_copy():
    made = resource.create("train")
    merged = made.merge(Resource({"service.instance.id": "child"}))
    process_identity.update(rank=3, system="trl")

    for one in (made, merged):
        assert (one.attributes["rl.rank"], one.attributes["rl.system.name"]) == (3, "trl")
    assert merged.attributes["service.instance.id"] == "child"


def test_equality_and_hash_do_not_change_with_the_identity():
    made = resource.create("train")
    before = hash(made)
    process_identity.update(rank=1)

    assert hash(made) == before
    assert made == made.merge(Resource({}))
    assert made != made.merge(Resource({"other": 1}))


def test_what_the_user_configured_wins(monkeypatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "rl.rank=9,service.name=mine")
    process_identity.update(rank=1)
    made = resource.create("train")

    assert made.attributes["rl.rank"] == "9"
    assert made.attributes["service.name"] == "mine"


def test_default_service_name_is_the_programs():
    assert resource.create("train").attributes["service.name"] == "train"
