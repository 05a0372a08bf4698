"""Real Ray: workers take their identity from their driver, on a cluster of its own and on one that runs already.

`make test-slow` runs this in an environment with Ray.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from process_support import SCRIPTS, Programs, closed_port

if TYPE_CHECKING:
    from collections.abc import Iterator

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

DRIVER = """
import os, sys
import ray, otel_rl
local = {"num_cpus": 2, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
address = sys.argv[1]
ray.init(address=address, log_to_driver=False, **(local if address == "local" else {}))

@ray.remote(num_cpus=0.5)
class Worker:
    def work(self):
        import otel_rl
        with otel_rl.step(7): pass
        return os.environ.get("MINE"), [path for path in sys.path if path.endswith("bootstrap")] != []

workers = [Worker.remote() for _ in range(2)]
print(*ray.get([worker.work.remote() for worker in workers]))
with otel_rl.step(7): pass
# Asked to leave, an actor ends its process in order.
for worker in workers:
    try:
        ray.get(worker.__ray_terminate__.remote())
    except ray.exceptions.RayActorError:
        pass
ray.shutdown()
"""
#: Of the node, in a job that has nothing to do with the driver's.
NODE = {"SLURM_JOB_ID": "9", "SLURM_STEP_ID": "3", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}
#: A busy machine starts Ray's own Python processes slowly.
PATIENCE = {
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OTEL_BSP_SCHEDULE_DELAY": "50",
}


@pytest.fixture(params=[{}, NODE], ids=["plain", "slurm-node"])
def head(request: pytest.FixtureRequest, programs: Programs) -> Iterator[str]:
    """A cluster on loopback whose processes know nothing of us."""
    port = closed_port()
    arguments = ["start", "--head", "--block", "--num-cpus=2", f"--port={port}", "--include-dashboard=false"]
    # The paths of Ray's sockets would be too long below pytest's directory.
    folder = tempfile.mkdtemp(prefix="ray")
    process = subprocess.Popen(
        [SCRIPTS / "ray", *arguments, "--node-ip-address=127.0.0.1", f"--temp-dir={folder}"],
        env={**programs.environ, **PATIENCE, **request.param},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert any("Ray runtime started" in line for line in process.stdout)
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.communicate(timeout=60)
    shutil.rmtree(folder, ignore_errors=True)


def check(programs: Programs, run_id: str | None = None) -> None:
    manifests = programs.store.manifests()
    assert len(manifests) == 3
    assert len({manifest["run_id"] for manifest in manifests}) == 1
    assert len({manifest["attempt"] for manifest in manifests}) == 1
    assert run_id is None or manifests[0]["run_id"].startswith(run_id)
    assert {manifest["rank"] for manifest in manifests} == {None}
    resources = programs.store.resources()
    assert {resource.get("rl.launcher") for resource in resources} == {"none", "ray"}
    names = Counter(span["name"] for span in programs.store.spans())
    # Each process that marks steps has a loop of its own: the trainer may be any of them.
    assert (names["rl.loop"], names["rl.run"], names["rl.rank.step"]) == (3, 1, 3)
    assert len({span["spanId"] for span in programs.store.spans()}) == sum(names.values())


@pytest.mark.parametrize("environ", [{}, {"SLURM_JOB_ID": "9", "SLURM_PROCID": "0"}], ids=["plain", "slurm"])
def test_workers_of_a_local_cluster_belong_to_their_driver(programs: Programs, environ: dict[str, str]) -> None:
    done = programs.instrumented(DRIVER, "local", **PATIENCE, **environ)

    assert done.code == 0, done.err
    check(programs, "slurm-9-" if environ else None)


def test_workers_of_a_cluster_that_runs_already_belong_to_their_driver(programs: Programs, head: str) -> None:
    text = DRIVER.replace("log_to_driver=False", "log_to_driver=False, runtime_env={'env_vars': {'MINE': 'kept'}}")
    done = programs.instrumented(text, head, **PATIENCE, OTEL_EXPORTER_OTLP_HEADERS="authorization=secret")

    assert done.code == 0, done.err
    assert done.out.count("('kept', True)") == 2
    check(programs)


#: A hook of the user's, as `RAY_RUNTIME_ENV_HOOK` names it.
MINE = """
def hook(runtime_env):
    changed = dict(runtime_env or {})
    changed["env_vars"] = {**changed.get("env_vars", {}), "MINE": "hooked"}
    print("asked", flush=True)
    return changed
def refuses(runtime_env):
    raise LookupError("mine")
"""


def test_a_hook_of_the_user_is_asked_too(programs: Programs, head: str) -> None:
    programs.write("mine.py", MINE)
    done = programs.instrumented(DRIVER, head, **PATIENCE, RAY_RUNTIME_ENV_HOOK="mine.hook")

    assert done.code == 0, done.err
    assert done.out.count("asked") == 1
    assert done.out.count("('hooked', True)") == 2
    check(programs)


def test_an_error_of_the_users_hook_ends_ray_init_as_without_us(programs: Programs) -> None:
    programs.write("mine.py", MINE)
    text = "import ray\ntry:\n    ray.init()\nexcept LookupError as error:\n    print(repr(error))\n"
    done = programs.instrumented(text, **PATIENCE, RAY_RUNTIME_ENV_HOOK="mine.refuses")

    assert (
        done.out == programs.run(SCRIPTS / "python", "program.py", **PATIENCE, RAY_RUNTIME_ENV_HOOK="mine.refuses").out
    )
    assert done.out == "LookupError('mine')\n"
