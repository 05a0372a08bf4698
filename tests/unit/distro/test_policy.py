"""Launcher, rank, worker or neither: from command line and environment."""

from __future__ import annotations

import ast
import inspect
import os

import pytest

from otel_rl.process import child_processes

ELASTIC = {"TORCHELASTIC_RUN_ID": "none", "RANK": "1", "LOCAL_RANK": "1", "MASTER_PORT": "29500"}
SPAWN = [
    "python",
    "-c",
    "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=1)",
    "--multiprocessing-fork",
]
TRACKER = ["python", "-c", "from multiprocessing.resource_tracker import main;main(5)"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["python", "train.py", "--x"], ("script", "train.py", ["--x"])),
        (["python", "-u", "-X", "dev", "-W", "ignore", "train.py"], ("script", "train.py", [])),
        (["python", "-m", "pkg.train", "-c"], ("module", "pkg.train", ["-c"])),
        (["python", "-c", "pass"], ("code", "pass", [])),
        (["python", "-um", "pkg.train", "-c"], ("module", "pkg.train", ["-c"])),
        (["python", "-mpkg.train"], ("module", "pkg.train", [])),
        (["python", "-Bucpass", "x"], ("code", "pass", ["x"])),
        (["python", "-uWignore", "-Xdev", "-uX", "dev", "train.py"], ("script", "train.py", [])),
        (["python", "--check-hash-based-pycs", "always", "--", "-m.py"], ("script", "-m.py", [])),
        (["python", "--"], ("none", "", [])),
        (["python"], ("none", "", [])),
        (["python", "-"], ("script", "-", [])),
        (["python", "-m"], ("module", "", [])),
        ([], ("none", "", [])),
    ],
)
def test_program_of_a_command_line(argv, expected):
    assert child_processes.program(argv) == expected


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "/usr/bin/torchrun", "--nproc-per-node=2", "train.py"],
        ["python", "-m", "torch.distributed.run", "train.py"],
        ["python", "-um", "torch.distributed.run", "train.py"],
        ["python", "-mtorch.distributed.run", "train.py"],
        ["python", "/usr/bin/accelerate", "launch", "train.py"],
        ["python", "-m", "deepspeed.launcher.launch", "train.py"],
        ["python", "/usr/bin/trl", "grpo"],
    ],
)
def test_launchers(argv):
    assert child_processes.is_launcher(argv)
    assert not child_processes.wanted(ELASTIC | {"OTEL_RL_CHILDREN": "all"}, argv, os.getpid())


@pytest.mark.parametrize(
    "argv", [["python", "train.py"], ["python", "/usr/bin/trl", "vllm-serve"], ["python", "-c", "torchrun"]]
)
def test_programs_that_are_no_launchers(argv):
    assert not child_processes.is_launcher(argv)


def wanted(argv, environ, parent=None):
    return child_processes.wanted(environ, argv, os.getpid() if parent is None else parent)


def test_rank_records_and_what_it_starts_does_not():
    marker = child_processes.marker(4711, "train", ELASTIC)

    assert wanted(["python", "train.py"], ELASTIC)
    assert not wanted(["python", "sandbox.py"], ELASTIC | {child_processes.MARKER: marker})


def test_rank_of_a_launcher_inside_an_instrumented_driver_records():
    marker = child_processes.marker(1, "driver", {})

    assert wanted(["python", "train.py"], ELASTIC | {child_processes.MARKER: marker})


def test_process_that_has_replaced_its_program_records_again():
    assert wanted(["python", "train.py"], {child_processes.MARKER: child_processes.marker(os.getpid(), "train", {})})


def test_restarted_rank_records_again():
    marker = child_processes.marker(1, "train", ELASTIC | {"TORCHELASTIC_RESTART_COUNT": "0"})

    assert wanted(["python", "train.py"], ELASTIC | {"TORCHELASTIC_RESTART_COUNT": "1", child_processes.MARKER: marker})


def test_multiprocessing_worker_records_when_its_parent_does():
    marker = child_processes.marker(4711, "train", {})

    assert wanted(SPAWN, {child_processes.MARKER: marker}, parent=4711)
    assert not wanted(SPAWN, {child_processes.MARKER: marker}, parent=4712)
    assert not wanted(TRACKER, {child_processes.MARKER: marker}, parent=4711)


@pytest.mark.parametrize(
    "argv",
    [
        [
            "python",
            "-c",
            "from multiprocess.spawn import spawn_main; spawn_main(tracker_fd=1)",
            "--multiprocessing-fork",
        ],
        ["python", "-c", "from multiprocess.forkserver import main; main(1)"],
        ["python", "-m", "joblib.externals.loky.backend.popen_loky_posix", "--process-name", "LokyProcess-1"],
        ["python", "-m", "loky.backend.popen_loky_posix", "--process-name", "LokyProcess-1"],
    ],
)
def test_workers_of_the_copies_of_multiprocessing_record_too(argv):
    assert wanted(argv, {child_processes.MARKER: child_processes.marker(4711, "train", {})}, parent=4711)


def test_the_resource_tracker_of_loky_does_not_record():
    argv = ["python", "-c", "from joblib.externals.loky.backend.resource_tracker import main; main(5, False)"]

    assert not wanted(argv, {child_processes.MARKER: child_processes.marker(4711, "train", {})}, parent=4711)


#: What Lightning's ``strategy="ddp"`` gives to a rank (lightning 2.6, ``_SubprocessScriptLauncher``).
LIGHTNING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "NODE_RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}
OWN = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("parent", "child", "expected"),
    [
        pytest.param({}, LIGHTNING, True, id="Lightning"),
        pytest.param({}, LIGHTNING | {"LOCAL_RANK": "0"}, False, id="helper of Lightning's first rank"),
        pytest.param(LIGHTNING, LIGHTNING, False, id="helper of a rank"),
        pytest.param(LIGHTNING, LIGHTNING | {"RANK": "1"}, False, id="helper of a rank that learnt more"),
        pytest.param({}, OWN, True, id="first rank of an own launcher"),
        pytest.param({}, OWN | {"WORLD_SIZE": "1"}, False, id="helper of a program that numbers itself"),
        pytest.param({}, {"RANK": "0"}, False, id="no world size"),
        pytest.param({}, OWN | {"RANK": "1", "LOCAL_RANK": "1"}, True, id="rank of an own launcher"),
        pytest.param(OWN, OWN | {"RANK": "1", "LOCAL_RANK": "1"}, True, id="the first rank starts the others"),
        pytest.param({}, {"LOCAL_RANK": "first"}, False, id="no number"),
    ],
)
def test_a_child_that_its_program_has_numbered_as_a_rank_records(parent, child, expected):
    environ = child | {child_processes.MARKER: child_processes.marker(4711, "train", parent)}

    assert wanted(["python", "train.py"], environ) is expected
    assert not wanted(["python", "-c", "from torch._inductor import x"], environ)


def test_a_rank_that_learns_its_number_later_tells_its_helpers(monkeypatch):
    environ = LIGHTNING | {child_processes.MARKER: child_processes.marker(os.getpid(), "train", {})}
    child_processes.mark_ranks(environ)
    monkeypatch.setattr(os, "getpid", lambda: 4712)

    assert not wanted(["python", "helper.py"], environ)
    assert wanted(["python", "helper.py"], environ | {"LOCAL_RANK": "2"})


def test_without_a_parent_that_records_a_number_starts_nothing():
    assert not wanted(["python", "train.py"], OWN)


@pytest.mark.parametrize("argv", [["python", "-m", "ipykernel_launcher", "-f", "x.json"], ["python", "-mipykernel"]])
def test_the_kernel_of_an_instrumented_jupyter_records(argv):
    assert wanted(argv, {child_processes.MARKER: child_processes.marker(4711, "jupyter", {})})
    assert not wanted(argv, {})


@pytest.mark.parametrize(("children", "expected"), [("all", True), ("none", False), ("launchers", False), ("x", False)])
def test_policy_for_an_ordinary_child(children, expected):
    assert wanted(["python", "helper.py"], {"OTEL_RL_CHILDREN": children}) is expected


def test_marker_survives_a_service_name_with_its_separator():
    environ = {child_processes.MARKER: child_processes.marker(12, "a|b", ELASTIC)}

    assert child_processes.parse_marker(environ) == (12, "a_b", ["1", "1", ""], child_processes.fingerprint(ELASTIC))


@pytest.mark.parametrize("text", ["", "x", "|", "abc|d|e"])
def test_marker_that_is_none(text):
    assert child_processes.parse_marker({child_processes.MARKER: text}) is None


def test_policy_imports_nothing_that_an_interpreter_has_not_loaded_anyway():
    source = ast.parse(inspect.getsource(child_processes))
    imported = {name.name for node in source.body if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in source.body if isinstance(node, ast.ImportFrom)}

    assert imported == {"__future__", "os", "sys"}
