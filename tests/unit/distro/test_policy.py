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


@pytest.mark.parametrize(("children", "expected"), [("all", True), ("none", False), ("launchers", False), ("x", False)])
def test_policy_for_an_ordinary_child(children, expected):
    assert wanted(["python", "helper.py"], {"OTEL_RL_CHILDREN": children}) is expected


def test_marker_survives_a_service_name_with_its_separator():
    environ = {child_processes.MARKER: child_processes.marker(12, "a|b", ELASTIC)}

    assert child_processes.parse_marker(environ) == (12, "a_b", child_processes.fingerprint(ELASTIC))


@pytest.mark.parametrize("text", ["", "x", "|", "abc|d|e"])
def test_marker_that_is_none(text):
    assert child_processes.parse_marker({child_processes.MARKER: text}) is None


def test_policy_imports_nothing_that_an_interpreter_has_not_loaded_anyway():
    source = ast.parse(inspect.getsource(child_processes))
    imported = {name.name for node in source.body if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in source.body if isinstance(node, ast.ImportFrom)}

    assert imported == {"__future__", "os", "sys"}
