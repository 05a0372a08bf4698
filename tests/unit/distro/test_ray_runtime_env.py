"""What ray.init is told about the workers' environment."""

from __future__ import annotations

import os
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType

import pytest

from otel_rl.distro import ray_hook
from otel_rl.distro.import_path import BOOTSTRAP


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
    monkeypatch.setitem(sys.modules, name, module)
    return module.hook


@pytest.fixture
def users(monkeypatch):
    """Modules of the user's, `mine` with a hook and `broken` with one that raises."""
    for name, function in (("mine", _adds), ("broken", _raises)):
        module = ModuleType(name)
        module.hook = function
        monkeypatch.setitem(sys.modules, name, module)


def _adds(runtime_env):
    return {**(runtime_env or {}), "pip": ["emoji"], "env_vars": {"MINE": "1"}}


def _raises(_):
    raise KeyError("mine")


class _FakeRay:
    """Where Ray's worker module is in `sys.modules`, its loader loads the user's hook."""

    @staticmethod
    def load_class(path):
        return lambda runtime_env: {"loaded": path, **(runtime_env or {})}


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


@pytest.mark.usefixtures("users")
def test_a_hook_of_the_user_is_asked_first_and_what_it_returns_is_extended(hook):
    sys.modules[hook.__module__].users = "mine.hook"

    assert hook({"working_dir": "."}) == {
        "working_dir": ".",
        "pip": ["emoji"],
        "env_vars": {"MINE": "1", "OTEL_RL_RUN_ID": "run-7", "PYTHONPATH": f"{BOOTSTRAP}:${{PYTHONPATH}}"},
    }


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize(
    ("path", "error"), [("broken.hook", KeyError), ("nowhere_at_all.hook", ImportError), ("mine.other", AttributeError)]
)
def test_an_error_of_the_users_hook_is_the_programs(hook, path, error):
    sys.modules[hook.__module__].users = path

    with pytest.raises(error):
        hook(None)


def test_the_users_hook_is_loaded_as_ray_loads_it(hook, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray._private.worker", _FakeRay)
    sys.modules[hook.__module__].users = "package.module.function"

    assert hook(None)["loaded"] == "package.module.function"


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize("present", [None, "mine.hook", "otel_rl_ray_runtime_env.hook"])
def test_ray_init_asks_our_hook_and_leaves_the_variable_as_it_was(monkeypatch, hook, present):
    def init(address):
        asked.append((os.environ["RAY_RUNTIME_ENV_HOOK"], hook(None).get("pip")))
        raise ConnectionError(address)

    monkeypatch.delenv("RAY_RUNTIME_ENV_HOOK", raising=False)
    if present is not None:
        monkeypatch.setenv("RAY_RUNTIME_ENV_HOOK", present)
    worker, asked = ModuleType("ray._private.worker"), []
    worker.init = init
    ray_hook.follow(worker)

    with pytest.raises(ConnectionError, match="auto"):
        worker.init("auto")
    assert asked == [("otel_rl_ray_runtime_env.hook", ["emoji"] if present == "mine.hook" else None)]
    assert os.environ.get("RAY_RUNTIME_ENV_HOOK") == present


def test_below_uv_run_what_rays_own_hook_returns_is_extended(hook):
    del hook

    def theirs(runtime_env):
        """Set the workers' Python."""
        return {**(runtime_env or {}), "py_executable": "uv run python"}

    uv = ModuleType("uv_runtime_env_hook")
    uv.hook = theirs
    ray_hook.follow(uv)

    changed = uv.hook({"env_vars": {"MINE": "1"}})
    assert changed["py_executable"] == "uv run python"
    assert changed["env_vars"]["MINE"] == "1"
    assert changed["env_vars"]["PYTHONPATH"] == f"{BOOTSTRAP}:${{PYTHONPATH}}"
    assert (uv.hook.__name__, uv.hook.__doc__) == ("theirs", "Set the workers' Python.")
