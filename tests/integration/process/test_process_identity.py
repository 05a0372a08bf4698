"""Launches of real processes: who shares a run id, who emits the root of a step, and what is agreed late."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from process_support import INSTRUMENT, SCRIPTS, TORCHRUN, Programs, closed_port

STEP = "import otel_rl\nwith otel_rl.step(7): pass\n"
#: What `srun` does for one task: the process has the step's variables and is the task.
SRUN = 'export SLURM_STEP_ID=$1 SLURM_STEP_NUM_TASKS=$2 SLURM_PROCID=$3 SLURM_TASK_PID=$$; shift 3; exec "$@"'
RANK = """
import os, sys, time
import otel_rl
with otel_rl.phase("data_wait"):
    pass
import torch.distributed as dist
dist.init_process_group("gloo")
from otel_rl.process import process_identity
# Where importing torch took longer than to the first export, the identity is frozen, but the ranks still meet.
while process_identity._meeting or not process_identity.settled():
    time.sleep(0.01)
for iteration in (1, 2):
    with otel_rl.step(iteration):
        dist.barrier()
dist.destroy_process_group()
"""
#: The name is what counts: to import it takes longer than it may take until something is exported.
ALONE = """
import sys, time, types
sys.modules["torch.distributed"] = types.ModuleType("torch.distributed")
import otel_rl
from otel_rl.process import process_identity
print(process_identity.settled())
with otel_rl.step(1):
    pass
while not process_identity.settled():
    time.sleep(0.01)
print(process_identity._has_worked)
"""
SPAWNED_RANKS = (
    "import multiprocessing, os\ndef work(rank):\n    "
    + RANK.replace('("gloo")', '("gloo", rank=rank, world_size=2)').strip().replace("\n", "\n    ")
    + """
if __name__ == "__main__":
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="free")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=(rank,)) for rank in range(2)]
    for process in processes: process.start()
    for process in processes: process.join()
    import otel_rl
    with otel_rl.step(1): pass
"""
)
MULTIPROCESSING = """
import multiprocessing, sys
import otel_rl
def work():
    with otel_rl.step(7): pass
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    processes = [context.Process(target=work) for _ in range(2)]
    for process in processes: process.start()
    for process in processes: process.join()
    work()
"""


def values(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {item["key"]: next(iter(item["value"].values())) for item in items}


def assert_no_span_id_twice(programs: Programs) -> None:
    twice = [span_id for span_id, n in Counter(span["spanId"] for span in programs.store.spans()).items() if n > 1]
    assert twice == []


def run_ids(programs: Programs) -> list[str]:
    return [manifest["run_id"] for manifest in programs.store.manifests()]


def roots(programs: Programs) -> list[dict[str, Any]]:
    return [span for span in programs.store.spans() if span["name"] == "rl.loop"]


def srun(programs: Programs, *command: object, step: int = 0, tasks: int = 1, rank: int = 0, **environ: str) -> None:
    line = ["bash", "-c", SRUN, "srun", str(step), str(tasks), str(rank), *map(str, command)]
    assert programs.run(*line, **{"SLURM_JOB_ID": "77", **environ}).code == 0


def test_a_program_that_has_ended_a_step_without_a_group_of_ranks_is_waited_for_no_longer(programs: Programs) -> None:
    done = programs.instrumented(ALONE)
    assert (done.code, done.out.split()) == (0, ["False", "True"])


def test_two_runs_in_one_slurm_allocation_are_two_runs(programs: Programs) -> None:
    for _ in range(2):
        assert programs.instrumented(STEP, SLURM_JOB_ID="77", SLURM_PROCID="0").code == 0

    assert len(set(run_ids(programs))) == 2
    assert all(run_id.startswith("slurm-77-") for run_id in run_ids(programs))
    assert len(roots(programs)) == 2
    assert_no_span_id_twice(programs)


def test_tasks_of_one_slurm_step_are_one_run_and_another_step_is_another(programs: Programs) -> None:
    program = programs.write("program.py", STEP)
    for step in (0, 1):
        for rank in (0, 1):
            srun(programs, INSTRUMENT, sys.executable, program, step=step, tasks=2, rank=rank)

    assert sorted(run_ids(programs)) == ["slurm-77.0", "slurm-77.0", "slurm-77.1", "slurm-77.1"]
    assert len(roots(programs)) == 2
    assert_no_span_id_twice(programs)
    traces = Counter(span["traceId"] for span in programs.store.spans() if span["name"] == "rl.rank.step")
    assert sorted(traces.values()) == [2, 2]


def test_a_requeue_and_an_elastic_restart_of_a_run_are_different_attempts(programs: Programs) -> None:
    program = programs.write("program.py", STEP)
    elastic = {"TORCHELASTIC_RUN_ID": "none", "RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    for counters in ({}, {"SLURM_RESTART_COUNT": "1"}, {**elastic, "TORCHELASTIC_RESTART_COUNT": "1"}):
        srun(programs, INSTRUMENT, sys.executable, program, **counters)

    assert set(run_ids(programs)) == {"slurm-77.0"}
    assert sorted(manifest["attempt"] for manifest in programs.store.manifests()) == ["0.0.0", "0.1.0", "1.0.0"]
    assert len({root["traceId"] for root in roots(programs)}) == 3
    assert_no_span_id_twice(programs)


def test_a_resumed_run_keeps_its_id_and_is_a_later_attempt(programs: Programs) -> None:
    for _ in range(2):
        assert programs.instrumented(STEP, OTEL_RL_RUN_ID="nightly").code == 0

    assert run_ids(programs) == ["nightly", "nightly"]
    assert len({manifest["attempt"] for manifest in programs.store.manifests()}) == 2
    assert len({root["traceId"] for root in roots(programs)}) == 2
    assert_no_span_id_twice(programs)


def test_runs_that_an_instrumented_program_or_script_starts_are_runs_of_their_own(programs: Programs) -> None:
    program = programs.write("trial.py", STEP)
    plain = shlex.join([sys.executable, str(program)])
    script = f"{plain}; {shlex.quote(str(INSTRUMENT))} {plain}; {plain}; true"
    done = programs.run(INSTRUMENT, "bash", "-c", script)

    assert done.code == 0, done.err
    assert len(set(run_ids(programs))) == 3
    assert len(roots(programs)) == 3
    assert_no_span_id_twice(programs)


def test_each_torchrun_of_a_sweep_is_a_run_of_its_own(programs: Programs) -> None:
    trial, torchrun = programs.write("trial.py", STEP), programs.write("bin/torchrun", TORCHRUN)
    sweep = (
        STEP + f"import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, {str(torchrun)!r},"
        f" '--nproc-per-node=1', {str(trial)!r}], check=True)\n"
    )
    done = programs.instrumented(sweep)

    assert done.code == 0, done.err
    assert len(set(run_ids(programs))) == 3
    assert len(roots(programs)) == 3
    assert_no_span_id_twice(programs)


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_workers_without_a_rank_share_the_run_and_no_step(programs: Programs, method: str) -> None:
    done = programs.instrumented(MULTIPROCESSING, method)

    assert done.code == 0, done.err
    assert len(run_ids(programs)) == 3
    assert len(set(run_ids(programs))) == 1
    (root,) = roots(programs)
    (run_span,) = [span for span in programs.store.spans() if span["name"] == "rl.run"]
    steps = [span for span in programs.store.spans() if span["name"] == "rl.rank.step"]
    workers = [span for span in steps if span["traceId"] != root["traceId"]]
    assert len(workers) == 2
    assert len({span["traceId"] for span in steps}) == 3
    for span in workers:
        assert not span.get("parentSpanId")
        assert [link["spanId"] for link in span["links"]] == [run_span["spanId"]]
    assert_no_span_id_twice(programs)


def test_the_second_trainer_of_a_process_has_steps_of_its_own(programs: Programs) -> None:
    assert programs.instrumented(STEP + STEP).code == 0

    assert len({root["traceId"] for root in roots(programs)}) == 2
    assert_no_span_id_twice(programs)


def start_two(programs: Programs, *command: object, **environ: str) -> None:
    """Run the command twice, as on two machines, with 0 and with 1 in place of ``@``."""
    ranks = [
        subprocess.Popen(
            [INSTRUMENT, sys.executable, *(str(word).replace("@", str(rank)) for word in command)],
            cwd=programs.directory,
            env={
                **programs.environ,
                "OTEL_BSP_SCHEDULE_DELAY": "50",
                "OTEL_BLRP_SCHEDULE_DELAY": "50",
                **{name: value.replace("@", str(rank)) for name, value in environ.items()},
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    for rank in ranks:
        _, err = rank.communicate(timeout=300)
        assert rank.returncode == 0, err


def assert_one_run_of_two_ranks(programs: Programs) -> None:
    assert sorted(manifest["rank"] for manifest in programs.store.manifests()) == [0, 1]
    assert len(set(run_ids(programs))) == 1
    # Not one span went out under another run id, although the first ended before the ranks met.
    assert len(list((programs.directory / "otel-rl").glob("*/*/"))) == 2
    assert {resource["rl.run.id"] for resource in programs.store.resources()} == set(run_ids(programs))
    by_name = Counter(span["name"] for span in programs.store.spans())
    assert (by_name["rl.loop"], by_name["rl.rank.step"], by_name["rl.data_wait"]) == (2, 4, 2)
    parents = {span["parentSpanId"] for span in programs.store.spans() if span["name"] == "rl.rank.step"}
    assert parents == {root["spanId"] for root in roots(programs)}
    assert_no_span_id_twice(programs)


def test_ranks_of_two_agents_without_a_rendezvous_id_are_one_run(programs: Programs) -> None:
    pytest.importorskip("torch")
    torchrun, program = programs.write("bin/torchrun", TORCHRUN), programs.write("program.py", RANK)
    start_two(programs, torchrun, "--nnodes=2", "--node-rank=@", f"--master-port={closed_port()}", program)

    assert_one_run_of_two_ranks(programs)


def test_ranks_that_were_started_by_hand_are_one_run_and_meet_in_its_steps(programs: Programs) -> None:
    pytest.importorskip("torch")
    world = {"RANK": "@", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(closed_port())}
    start_two(programs, programs.write("program.py", RANK), **world)

    assert_one_run_of_two_ranks(programs)


#: Rank 0 of two jobs, one after the other, or rank 1 of one of them.
SILENT = """
import os, sys, time
import torch.distributed as dist
for port in sys.argv[2:]:
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo")
    dist.barrier()
    time.sleep(float(sys.argv[1]))
    dist.destroy_process_group()
"""


def test_a_rank_whose_rank_zero_is_silent_ends_as_without_us(programs: Programs) -> None:
    pytest.importorskip("torch")
    program = programs.write("program.py", SILENT)
    world, ports = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}, [str(closed_port()) for _ in range(2)]
    silent = subprocess.Popen([sys.executable, program, "0", *ports], env={**programs.environ, **world, "RANK": "0"})
    try:
        # It ends at once, and later.
        for linger, port in zip(("0", "0.5"), ports, strict=True):
            done = programs.run(INSTRUMENT, sys.executable, program, linger, port, timeout=300, **world, RANK="1")
            assert done.code == 0, done.err
        assert silent.wait(timeout=300) == 0
    finally:
        silent.kill()


def test_ranks_that_a_program_spawns_for_itself_meet_in_the_steps_of_their_group(programs: Programs) -> None:
    pytest.importorskip("torch")
    done = programs.instrumented(SPAWNED_RANKS.replace("free", str(closed_port())))

    assert done.code == 0, done.err
    assert sorted(str(manifest["rank"]) for manifest in programs.store.manifests()) == ["0", "1", "None"]
    assert len(set(run_ids(programs))) == 1
    steps = Counter(span["traceId"] for span in programs.store.spans() if span["name"] == "rl.rank.step")
    assert sorted(steps.values()) == [1, 2, 2]
    assert len(roots(programs)) == 3
    assert_no_span_id_twice(programs)


def test_a_single_process_of_accelerate_launch_drives_its_run(programs: Programs) -> None:
    pytest.importorskip("accelerate")
    options = ("--cpu", "--num_processes=1", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no")
    done = programs.run(INSTRUMENT, SCRIPTS / "accelerate", "launch", *options, programs.write("program.py", STEP))

    assert done.code == 0, done.err
    assert programs.store.resources()[0]["rl.launcher"] == "accelerate"
    assert len(roots(programs)) == 1
    assert [span["name"] for span in programs.store.spans()].count("rl.run") == 1


def test_nothing_of_ours_is_left_in_the_environment_but_what_is_documented(programs: Programs) -> None:
    done = programs.instrumented("import os; print(*sorted(name for name in os.environ if 'OTEL_RL' in name))")

    ours = set(done.out.split()) - {name for name in programs.environ if "OTEL_RL" in name}
    assert ours == {"OTEL_RL_RUN_ID", "OTEL_RL_LAUNCH", "OTEL_RL_PROCESS", "OTEL_RL_DATA_DIR"}
    assert os.environ.get("OTEL_RL_LAUNCH") is None
