"""One job of torchrun, two ranks on gloo: what its ranks, its agent and their children record."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
from process_support import INSTRUMENT, SCRIPTS, Finished, Programs, plain

if TYPE_CHECKING:
    from warm_launcher import WarmLauncher

pytest.importorskip("torch")

PROGRAM = """
import json, subprocess, sys
import torch.distributed as dist
import otel_rl
dist.init_process_group("gloo")
with otel_rl.step(1): pass
dist.barrier()
show = "import sys; print('opentelemetry' in sys.modules)"
done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True)
print(json.dumps([sys.argv, done.stdout, done.stderr]))
dist.destroy_process_group()
"""
ARGUMENTS = ("--config", "x", "--traces", "y")


class Job(NamedTuple):
    """The job, and what is in its files."""

    programs: Programs
    done: Finished

    @property
    def said(self) -> list[list[str]]:
        """What each rank has printed."""
        return [json.loads(line) for line in self.done.out.splitlines()]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory, launcher: WarmLauncher | None) -> Job:
    programs = Programs(tmp_path_factory.mktemp("torchrun"), launcher)
    command = (INSTRUMENT, SCRIPTS / "torchrun", "--standalone", "--nproc-per-node=2")
    program = programs.write("program.py", PROGRAM)
    return Job(programs, programs.run(*command, program, *ARGUMENTS, timeout=500, OTEL_RL_EXIT_TIMEOUT="30"))


def test_the_ranks_record_one_run_and_their_agent_and_their_children_do_not(job: Job) -> None:
    assert job.done.code == 0, job.done.err
    assert [said[1:] for said in job.said] == [["False\n", ""]] * 2
    store = job.programs.store
    assert sorted(manifest["rank"] for manifest in store.manifests()) == [0, 1]
    assert len({resource["rl.run.id"] for resource in store.resources()}) == 1
    ours = [line for line in job.done.err.splitlines() if "otel-rl" in line or "onfigurat" in line]
    assert len(ours) == 1, job.done.err
    assert "otel-rl report" in ours[0]


def test_ranks_that_are_instrumented_inside_of_torchrun_record_one_run(programs: Programs) -> None:
    command = (SCRIPTS / "torchrun", "--standalone", "--nproc-per-node=2", "--no-python")
    program = programs.write("program.py", PROGRAM)
    done = programs.run(*command, INSTRUMENT, sys.executable, program, timeout=500, OTEL_RL_EXIT_TIMEOUT="30")

    assert done.code == 0, done.err
    assert sorted(manifest["rank"] for manifest in programs.store.manifests()) == [0, 1]
    assert len({resource["rl.run.id"] for resource in programs.store.resources()}) == 1


def test_every_rank_begins_and_ends_and_the_launcher_does_not(job: Job) -> None:
    store = job.programs.store
    assert [rank for rank, _ in store.places("rl.run.start")] == [0, 1]
    assert store.places("rl.run.start") == store.places("rl.run.end")


def test_arguments_pass_through_torchrun(job: Job) -> None:
    assert [said[0] for said in job.said] == [[str(job.programs.directory / "program.py"), *ARGUMENTS]] * 2


def test_the_leading_rank_records_what_the_run_did_outside_of_steps_and_which_program_it_is(job: Job) -> None:
    store = job.programs.store
    parts = [plain(span["attributes"])["rl.run.part"] for span in store.spans() if span["name"] == "rl.run.part"]
    assert parts.count("rendezvous") == 1
    ends = [{item["key"] for item in event["attributes"]} for event in store.events("rl.run.end")]
    assert sorted("process.command_args" in keys for keys in ends) == [False, True]
