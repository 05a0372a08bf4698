"""Over generated launches: no span id twice, one run id in all processes of a launch, none in two launches."""

from __future__ import annotations

from collections import Counter
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_rl.process import child_processes, launch, launcher_environment
from otel_rl.telemetry import ids

SPAWN = ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()"]
RAY_WORKER = ["python", "/x/default_worker.py"]
TRAIN = ["python", "train.py"]
_pids = iter(range(1000, 10**9))


class Process:
    """One process that records: its environment, as it hands it to children, and what it knows of itself."""

    def __init__(self, environ: dict[str, str], argv: list[str]) -> None:
        self.environ, self.argv, self.pid = dict(environ), argv, next(_pids)
        if environ.get("SLURM_TASK_PID") == "own":
            self.environ["SLURM_TASK_PID"] = str(self.pid)
        with self.running():
            if argv[0] == "opentelemetry-instrument":
                launch.prepare(self.environ, argv, begins=True)
                argv = argv[1:]
            begins = child_processes.parse_marker(self.environ) is None and not child_processes.is_worker(argv)
            launch.prepare(self.environ, argv, begins=begins or child_processes.is_launcher(argv))
            self.records = not child_processes.is_launcher(argv) and argv[0] == "python"
            self.identity = launcher_environment.detect(self.environ, argv)
            if self.records:
                self.environ[child_processes.MARKER] = child_processes.marker(self.pid, "train", self.environ)

    def running(self) -> mock._patch[mock.Mock]:
        return mock.patch("os.getpid", return_value=self.pid)

    def derived_ids(self) -> list[int]:
        """Span ids that are not random: of the run, and of the root of the first step."""
        found, run = [], self.identity
        if run["leads"]:
            found.append(ids.derive(run["id"], run["attempt"], "run").span_id)
        if run["steps_key"] is not None and run["rank"] in (0, None):
            found.append(ids.derive(run["steps_key"], 1).span_id)
        return found


def start(environ: dict[str, str], *argv: str) -> Process:
    return Process(environ, list(argv))


def torchrun(environ: dict[str, str], nodes: int, ranks: int, instrument: bool) -> list[Process]:
    agents = [
        start(environ, *(["opentelemetry-instrument"] if instrument else []), "python", "/bin/torchrun", "train.py")
        for _ in range(nodes)
    ]
    world = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": str(nodes * ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    return [
        start(
            {**agent.environ, **world, "RANK": str(node * ranks + rank), "LOCAL_RANK": str(rank)}
            | {"GROUP_RANK": str(node), "MASTER_PORT": "29500", "TORCHELASTIC_RESTART_COUNT": "0"},
            *TRAIN,
        )
        for node, agent in enumerate(agents)
        for rank in range(ranks)
    ]


def slurm(environ: dict[str, str], nodes: int, ranks: int, instrument: bool) -> list[Process]:
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": str(next(_pids)), "SLURM_STEP_NUM_TASKS": str(nodes * ranks)}
    prefix = ["opentelemetry-instrument"] if instrument else []
    return [
        start({**environ, **step, "SLURM_PROCID": str(rank), "SLURM_TASK_PID": "own"}, *prefix, *TRAIN)
        for rank in range(nodes * ranks)
    ]


def mpi(environ: dict[str, str], nodes: int, ranks: int, instrument: bool) -> list[Process]:
    if instrument:
        environ = start(environ, "opentelemetry-instrument", "mpirun", "python", "train.py").environ
    size = str(nodes * ranks)
    return [
        start({**environ, "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": size}, *TRAIN)
        for rank in range(nodes * ranks)
    ]


def alone(environ: dict[str, str], nodes: int, ranks: int, instrument: bool) -> list[Process]:
    # A plain child of a program that records is a part of that launch, and no launch.
    instrument = instrument or child_processes.MARKER in environ
    return [start(environ, *(["opentelemetry-instrument"] if instrument else []), *TRAIN)]


def children(parent: Process, kinds: list[str]) -> list[Process]:
    argv = {"spawn": SPAWN, "ray": RAY_WORKER, "subprocess": TRAIN}
    slurm_of_the_node = {"RAY_RAYLET_PID": "1", "SLURM_PROCID": "0", "SLURM_JOB_ID": "9", "SLURM_STEP_ID": "3"}
    return [start({**parent.environ, **(slurm_of_the_node if kind == "ray" else {})}, *argv[kind]) for kind in kinds]


LAUNCHES = st.tuples(
    st.sampled_from([torchrun, slurm, mpi, alone]),
    st.integers(1, 2),
    st.integers(1, 3),
    st.booleans(),
    st.lists(st.sampled_from(["spawn", "ray", "subprocess"]), max_size=3),
)
AROUND = st.sampled_from(["nothing", "slurm", "program", "script", "user"])


def surroundings(around: str) -> dict[str, str]:
    if around == "slurm":
        return {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}
    if around == "program":
        return start({}, "opentelemetry-instrument", "python", "sweep.py").environ
    if around == "script":
        return start({}, "opentelemetry-instrument", "bash", "sweep.sh").environ
    return {"OTEL_RL_RUN_ID": "nightly"} if around == "user" else {}


@settings(deadline=None, max_examples=300)
@given(around=AROUND, launches=st.lists(LAUNCHES, min_size=1, max_size=3))
def test_no_two_processes_emit_the_same_span_id_and_a_launch_has_one_run_id(around, launches):
    environ = surroundings(around)
    every: list[Process] = []
    ids_of_launches = []
    for make, nodes, ranks, instrument, kinds in launches:
        begun = make(environ, nodes, ranks, instrument)
        processes = begun + [child for parent in begun for child in children(parent, kinds)]
        # Ranks that have not agreed say so: they take over what rank 0 has when they meet.
        agreed = {process.identity["id"] for process in processes if process.identity["agreed"]}
        asking = [process for process in begun if not process.identity["agreed"]]
        if not asking:
            assert len(agreed) == 1
            assert len({process.identity["attempt"] for process in processes}) == 1
        assert all(process.identity["steps_key"] is None for process in asking)
        assert sum(process.identity["leads"] for process in begun) == 1
        ids_of_launches.append({(process.identity["id"], process.identity["attempt"]) for process in begun})
        every += processes

    counted = Counter(span_id for process in every for span_id in process.derived_ids())
    assert [span_id for span_id, number in counted.items() if number > 1] == []
    for position, of_one in enumerate(ids_of_launches):
        for of_another in ids_of_launches[position + 1 :]:
            assert not of_one & of_another
