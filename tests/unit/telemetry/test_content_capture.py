"""Where the user wants content, as the environment says at the moment."""

from __future__ import annotations

import os

import pytest

from otel_rl.telemetry.content_capture import CAPTURE_ENVIRONMENT_VARIABLE, Capture, capture

NOWHERE, ON_SPANS = Capture(span=False, event=False), Capture(span=True, event=False)


@pytest.fixture(autouse=True)
def _not_set(monkeypatch):
    monkeypatch.delenv(CAPTURE_ENVIRONMENT_VARIABLE, raising=False)


def test_a_variable_that_is_set_and_removed_late_is_seen(monkeypatch):
    assert capture() == NOWHERE
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, " span_only ")
    assert capture() == ON_SPANS
    monkeypatch.delenv(CAPTURE_ENVIRONMENT_VARIABLE)
    assert capture() == NOWHERE


def test_a_mapping_in_place_of_the_environment_is_asked(monkeypatch):
    monkeypatch.setattr(os, "environ", {CAPTURE_ENVIRONMENT_VARIABLE: "SPAN_ONLY"})
    assert capture() == ON_SPANS


def test_the_variable_counts_no_more_where_the_environment_is_another_one(monkeypatch):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "SPAN_ONLY")
    monkeypatch.setattr(os, "environ", {})
    assert capture() == NOWHERE
