"""Callbacks after imports: once, for whoever imports, and never to be seen."""

from __future__ import annotations

import _imp
import importlib
import os
import subprocess
import sys
import threading
import time

import pytest

from otel_rl.core import import_hooks
from otel_rl.core.import_hooks import ImportHooks


@pytest.fixture
def hooks():
    made = ImportHooks()
    yield made
    if made in sys.meta_path:
        sys.meta_path.remove(made)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that can be imported; its name."""
    name = "hooked_module"
    (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def test_callback_runs_once_after_the_module_is_complete(hooks, module):
    seen = []
    hooks.after_import(module, lambda loaded: seen.append(loaded.value))
    assert seen == []

    importlib.import_module(module)
    importlib.reload(sys.modules[module])
    assert seen == [1]


def test_module_that_is_loaded_already_is_served_at_once(hooks, module):
    importlib.import_module(module)
    seen = []
    hooks.after_import(module, seen.append)

    assert seen == [sys.modules[module]]


def test_module_keeps_its_own_loader(hooks, module):
    hooks.after_import(module, lambda _: None)
    loaded = importlib.import_module(module)

    assert type(loaded.__loader__).__name__ == "SourceFileLoader"
    assert "exec_module" not in vars(loaded.__loader__)


def test_callback_that_raises_does_not_reach_the_import(hooks, module, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    seen = []

    def fail(_):
        raise RuntimeError

    hooks.after_import(module, fail)
    hooks.after_import(module, seen.append)
    assert importlib.import_module(module).value == 1
    assert len(seen) == 1


def test_callback_may_import_the_module_again(hooks, module):
    hooks.after_import(module, lambda _: setattr(importlib.import_module(module), "value", 2))

    assert importlib.import_module(module).value == 2


def test_missing_module_stays_missing(hooks):
    hooks.after_import("no_such_module_at_all", lambda _: None)

    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_at_all")


def test_hooks_of_wrapt_on_the_same_module_run_too(hooks, module):
    wrapt = pytest.importorskip("wrapt")
    seen = []
    wrapt.register_post_import_hook(lambda _: seen.append("wrapt"), module)
    hooks.after_import(module, lambda _: seen.append("ours"))
    importlib.import_module(module)

    assert sorted(seen) == ["ours", "wrapt"]


def test_module_imported_by_many_threads_is_served_once(hooks, module):
    seen = []
    hooks.after_import(module, seen.append)
    threads = [threading.Thread(target=importlib.import_module, args=(module,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(seen) == 1


@pytest.fixture
def half_imported(hooks, module, tmp_path, monkeypatch):
    """A module whose own code begins to wait for it; what its callback has seen."""
    seen = []
    hooks.watch_me = lambda: hooks.after_import(module, lambda loaded: seen.append((loaded.value, _imp.lock_held())))
    monkeypatch.setitem(sys.modules, "the_hooks", hooks)
    (tmp_path / f"{module}.py").write_text("import the_hooks\nthe_hooks.watch_me()\nvalue = 1\n")
    yield seen
    sys.modules.pop("next_module", None)


def test_module_that_is_being_imported_is_served_after_the_next_one_without_the_lock_of_all_imports(
    hooks, module, half_imported, tmp_path
):
    hooks.seen = half_imported
    (tmp_path / "next_module.py").write_text("import the_hooks\nseen = list(the_hooks.seen)\n")
    importlib.import_module(module)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("any_import_that_has_to_look")
    assert half_imported == []
    # Not before the next module's code has run: a thread that waits for it meanwhile would be given an empty module.
    assert importlib.import_module("next_module").seen == []
    assert half_imported == [(1, False)]


def test_module_whose_import_failed_while_somebody_waited_is_served_when_it_is_imported_again(
    module, half_imported, tmp_path
):
    file = tmp_path / f"{module}.py"
    whole = file.read_text()
    file.write_text(whole.replace("value = 1", "raise ImportError"))
    with pytest.raises(ImportError):
        importlib.import_module(module)
    file.write_text("value = 'imported again'\n")
    importlib.import_module(module)

    assert half_imported == [("imported again", False)]


def test_module_blames_its_importer_for_what_it_warns_of(hooks, module, tmp_path):
    (tmp_path / f"{module}.py").write_text("import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=2)\n")
    (tmp_path / "importer_of_module.py").write_text(f"import {module}\n")
    hooks.after_import(module, lambda _: None)
    with pytest.warns(DeprecationWarning, match="old") as caught:
        importlib.import_module("importer_of_module")

    assert [warning.filename for warning in caught] == [str(tmp_path / "importer_of_module.py")]


def test_traceback_of_a_failing_import_does_not_show_us(module, tmp_path):
    (tmp_path / f"{module}.py").write_text("1 / 0\n")
    program = f"from otel_rl.core.import_hooks import hooks\nhooks.after_import({module!r}, print)\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}import {module}"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "ZeroDivisionError" in done.stderr
    assert "import_hooks" not in done.stderr
    assert "importlib" not in done.stderr


@pytest.fixture
def large(tmp_path, monkeypatch):
    """A package that counts as large, of which a module takes 20 ms and the package 40 ms; its name."""
    name = "large_library"
    (tmp_path / name).mkdir()
    sleep = "import time\ntime.sleep(0.02)\n"
    (tmp_path / name / "__init__.py").write_text(f"{sleep}from {name} import inner\n")
    (tmp_path / name / "inner.py").write_text(sleep)
    (tmp_path / name / "later.py").write_text(sleep)
    (tmp_path / name / "fails.py").write_text(f"{sleep}raise RuntimeError('no')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(import_hooks, "_LARGE", {name})
    # Those of the whole process, where a test has put them there, would measure some of the imports themselves.
    others = [finder for finder in sys.meta_path if not isinstance(finder, import_hooks.ImportHooks)]
    monkeypatch.setattr(sys, "meta_path", others)
    yield name
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


def test_imports_of_large_libraries_are_measured_each_with_what_it_imports(hooks, large, module):
    hooks.after_import("never_imported", lambda _: None)
    began = time.time_ns()
    importlib.import_module(large)
    importlib.import_module(module)
    importlib.import_module(f"{large}.later")
    ended = time.time_ns()

    whole, later = hooks.take_intervals()
    assert began <= whole[0] < whole[1] <= later[0] < later[1] <= ended
    assert whole[1] - whole[0] >= 40_000_000
    assert later[1] - later[0] >= 20_000_000
    assert hooks.take_intervals() == []


def test_import_that_fails_is_measured_and_raises_its_own_error_from_the_library(hooks, large):
    hooks.after_import("never_imported", lambda _: None)
    importlib.import_module(large)
    with pytest.raises(RuntimeError, match="no") as caught:
        exec(f"import {large}.fails", {})  # noqa: S102 - as the program does

    files = [os.path.basename(str(entry.path)) for entry in caught.traceback]  # noqa: PTH119 - "<string>" is no path
    assert files[-2:] == ["<string>", "fails.py"], "no frame of ours"
    assert len(hooks.take_intervals()) == 2
