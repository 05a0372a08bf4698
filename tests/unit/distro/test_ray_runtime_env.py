"""What ray.init is told about the workers' environment."""

from __future__ import annotations

import os
from importlib.machinery import SourceFileLoader
from types import ModuleType

import pytest

from otel_rl.distro.start import BOOTSTRAP


@pytest.fixture
def hook(monkeypatch):
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_RL_RUN_ID", "run-7")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/secret")
    name = "otel_rl_ray_runtime_env"
    loader = SourceFileLoader(name, os.path.join(BOOTSTRAP, f"{name}.py"))  # noqa: PTH118 - a text, as in the module
    module = ModuleType(name)
    module.__file__ = loader.path
    loader.exec_module(module)
    return module.hook


def test_workers_get_our_bootstrap_folder_and_the_run_and_no_secret(hook):
    assert hook(None) == {"env_vars": {"OTEL_RL_RUN_ID": "run-7", "PYTHONPATH": f"{BOOTSTRAP}:${{PYTHONPATH}}"}}


def test_what_the_user_set_wins_and_stays_unchanged(hook):
    mine = {"working_dir": ".", "env_vars": {"OTEL_RL_RUN_ID": "mine", "PYTHONPATH": "/mine"}}
    changed = hook(mine)

    assert changed["working_dir"] == "."
    assert changed["env_vars"] == {"OTEL_RL_RUN_ID": "mine", "PYTHONPATH": f"{BOOTSTRAP}:/mine"}
    assert mine["env_vars"]["PYTHONPATH"] == "/mine"


def test_what_cannot_be_read_is_given_back_as_it_is(hook):
    odd = object()
    assert hook(odd) is odd
