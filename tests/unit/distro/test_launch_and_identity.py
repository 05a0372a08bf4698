"""Run id, identity and service name from the launcher's environment."""

from __future__ import annotations

import os

import pytest

from otel_rl.process import child_processes, launch, launcher_environment
from otel_rl.telemetry import ids


def test_run_id_of_the_user_wins_and_the_data_directory_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environ = {"OTEL_RL_RUN_ID": "mine", "SLURM_JOB_ID": "7", "OTEL_RL_DATA_DIR": "here"}
    launch.prepare(environ)

    assert environ["OTEL_RL_RUN_ID"] == "mine"
    assert environ["OTEL_RL_DATA_DIR"] == str(tmp_path / "here")


@pytest.mark.parametrize(
    ("environ", "argv", "expected"),
    [
        ({"SLURM_JOB_ID": "7"}, [], "slurm-7"),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2"}, [], "slurm-7.2"),
        # The batch script and an interactive shell are steps that nobody started with srun.
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "4294967291"}, [], "slurm-7"),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "4294967290"}, [], "slurm-7"),
        ({"TORCHELASTIC_RUN_ID": "none"}, [], None),
        ({"TORCHELASTIC_RUN_ID": "job9"}, [], "job9"),
        ({"PET_RDZV_ID": "job9"}, [], "job9"),
        ({}, ["torchrun", "--rdzv-id=job9"], "job9"),
        ({}, ["torchrun", "--rdzv_id", "job9"], "job9"),
        ({}, ["torchrun", "--rdzv-id"], None),
        ({"AZUREML_RUN_ID": "az"}, [], "az"),
    ],
)
def test_a_made_run_id_begins_with_the_job(environ, argv, expected):
    assert launch.launcher_job(environ, argv) == expected
    made = [launch.made_run_id(environ, argv) for _ in range(2)]
    assert made[0] != made[1]
    assert expected is None or all(run_id.startswith(f"{expected}-") for run_id in made)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OTEL_PYTHON_DISTRO": "aws"}, {"OTEL_PYTHON_DISTRO": "aws"}),
        ({}, {"OTEL_PYTHON_DISTRO": "otel_rl", "OTEL_PYTHON_CONFIGURATOR": "otel_rl"}),
        ({"OTEL_PYTHON_CONFIGURATOR": "x"}, {"OTEL_PYTHON_DISTRO": "otel_rl", "OTEL_PYTHON_CONFIGURATOR": "x"}),
    ],
)
def test_choice_of_the_user_is_kept(environ, expected):
    launch.choose_distro(environ)

    assert environ == expected


_STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}
_SRUN = {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"}
_RAY = {"RAY_RAYLET_PID": "4", "RAY_JOB_ID": "01000000"}
_WORKER = ["python", "/x/default_worker.py"]
_SET_BY_PROGRAM = {
    "WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    child_processes.MARKER: child_processes.marker(1, "train", {}),
    launch.LAUNCH: "host:1||0.0.0|00000000|run",
    launch.RUN_ID: "run",
}


@pytest.mark.parametrize(
    ("environ", "argv", "expected"),
    [
        pytest.param(
            {"TORCHELASTIC_RUN_ID": "none", "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "GROUP_RANK": "1"},
            [],
            {"rank": 3, "local_rank": 1, "world_size": 8, "node_rank": 1, "launcher": "torchrun", "job_id": None},
            id="torchrun",
        ),
        pytest.param(
            {"ACCELERATE_MIXED_PRECISION": "no", "TORCHELASTIC_RUN_ID": "x", "RANK": "1", "WORLD_SIZE": "2"},
            [],
            {"rank": 1, "launcher": "accelerate", "job_id": "x", "numbered": True},
            id="accelerate",
        ),
        pytest.param(
            {"CROSS_RANK": "1", "LOCAL_SIZE": "2", "RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "4"},
            [],
            {"rank": 2, "local_rank": 0, "node_rank": 1, "launcher": "deepspeed", "numbered": True},
            id="deepspeed",
        ),
        pytest.param(
            _STEP | {"SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_NODEID": "1", "SLURM_NTASKS": "4"},
            [],
            {"rank": 2, "local_rank": 0, "world_size": 4, "node_rank": 1, "launcher": "slurm", "job_id": "7"},
            id="slurm",
        ),
        pytest.param(
            {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"},
            [],
            {"rank": None, "launcher": "none", "job_id": "7", "leads": True},
            id="slurm-batch-script",
        ),
        pytest.param(
            _STEP | {"SLURM_PROCID": "0", "RANK": "5", "TORCHELASTIC_RUN_ID": "x"},
            [],
            {"rank": 5, "launcher": "torchrun", "job_id": "7"},
            id="torchrun-in-slurm",
        ),
        pytest.param(
            {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
            [],
            {"rank": 1, "world_size": 2, "local_rank": 1, "launcher": "mpi"},
            id="openmpi",
        ),
        pytest.param(
            {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"},
            [],
            {"rank": 1, "world_size": 2, "local_rank": 1, "launcher": "mpi"},
            id="hydra",
        ),
        pytest.param(
            {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_RANK": "0"},
            [],
            {"rank": 1, "world_size": 2, "local_rank": 0, "launcher": "mpi"},
            id="mvapich",
        ),
        *(
            pytest.param(
                _STEP | _SRUN | pmi,
                [],
                {"rank": 3, "local_rank": 1, "world_size": 4, "node_rank": 1, "launcher": "slurm"},
                id=f"srun-that-speaks-{name}",
            )
            for name, pmi in (("pmix", {"PMIX_RANK": "3"}), ("pmi2", {"PMI_RANK": "3", "PMI_SIZE": "4"}))
        ),
        pytest.param(
            _STEP | _SRUN | {"PMI_RANK": "3", "PMI_SIZE": "8", "MPI_LOCALRANKID": "3"},
            [],
            {"rank": 3, "local_rank": 3, "world_size": 8, "launcher": "mpi"},
            id="hydra-in-a-step",
        ),
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "h", "JOB_COMPLETION_INDEX": "4"},
            [],
            {"launcher": "kubernetes", "node_rank": 4, "rank": None, "leads": True},
            id="kubernetes-indexed-job",
        ),
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "h", "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "m-0"},
            [],
            {"launcher": "kubernetes", "rank": 1, "world_size": 2, "leads": False, "numbered": True},
            id="kubeflow",
        ),
        pytest.param(
            _RAY | {"RAY_JOB_ID": "ffffffff"}, _WORKER, {"rank": None, "launcher": "ray", "job_id": None}, id="ray-idle"
        ),
        pytest.param(
            _RAY | _STEP | {"SLURM_PROCID": "0", "SLURM_RESTART_COUNT": "2"},
            _WORKER,
            {"rank": None, "launcher": "ray", "job_id": "01000000", "leads": False, "steps_key": None},
            id="ray-worker-on-a-slurm-node",
        ),
        pytest.param(
            _RAY | {"RANK": "0", "WORLD_SIZE": "2"},
            _WORKER,
            {"rank": 0, "world_size": 2, "numbered": False, "leads": False, "steps_key": None},
            id="ray-actor-with-a-rank",
        ),
        pytest.param(
            {"RANK": "0", child_processes.MARKER: "1|driver|"},
            ["python", "-c", "from multiprocessing.spawn import spawn_main"],
            {"launcher": "multiprocessing", "rank": 0, "numbered": False, "leads": False, "steps_key": None},
            id="multiprocessing",
        ),
        pytest.param(
            _SET_BY_PROGRAM
            | {"LOCAL_RANK": "1", "NODE_RANK": "0"}
            | {"SLURM_PROCID": "0", child_processes.MARKER: child_processes.marker(1, "train", {"SLURM_PROCID": "0"})},
            ["python", "train.py"],
            {"launcher": "none", "rank": 1, "local_rank": 1, "world_size": 2, "numbered": True, "agreed": True},
            id="lightning",
        ),
        pytest.param(
            _SET_BY_PROGRAM | {"LOCAL_RANK": "1", "NODE_RANK": "1", "WORLD_SIZE": "4"},
            ["python", "train.py"],
            {"launcher": "none", "rank": None, "local_rank": 1, "node_rank": 1, "numbered": False, "leads": False},
            id="lightning-on-the-second-node",
        ),
        pytest.param(
            _SET_BY_PROGRAM | {"RANK": "0", "LOCAL_RANK": "0"},
            ["python", "train.py"],
            {"rank": 0, "numbered": True, "leads": False},
            id="first-rank-below-a-program-that-leads",
        ),
        pytest.param({"RANK": "1", "WORLD_SIZE": "2"}, [], {"launcher": "none", "rank": 1, "numbered": True}, id="env"),
        pytest.param({"RANK": "first"}, [], {"rank": None, "launcher": "none"}, id="no-number"),
        pytest.param({"PMI_RANK": "-1"}, [], {"rank": None, "launcher": "mpi"}, id="no-rank"),
    ],
)
def test_identity_from_the_environment(environ, argv, expected):
    found = launcher_environment.detect(environ, argv)

    assert {field: found[field] for field in expected} == expected


def test_a_requeue_and_an_elastic_restart_are_different_attempts_in_order():
    requeued = launcher_environment.detect({"RANK": "0", "SLURM_RESTART_COUNT": "1"})["attempt"]
    restarted = launcher_environment.detect({"RANK": "0", "TORCHELASTIC_RESTART_COUNT": "1"})["attempt"]

    assert (requeued, restarted) == ("1.0.0", "0.1.0")
    assert ids.derive("r", requeued, 5) != ids.derive("r", restarted, 5)
    assert launch.parse_attempt(requeued) > launch.parse_attempt("0.10.0") > launch.parse_attempt(restarted)


@pytest.mark.parametrize(("address", "agreed"), [("127.0.0.1", True), (os.uname().nodename, True), ("node7", False)])
def test_ranks_of_a_program_share_its_run_where_rank_0_is_on_this_machine(address, agreed):
    environ = _SET_BY_PROGRAM | {"RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": address}

    found = launcher_environment.detect(environ, ["python", "train.py"])

    assert found["agreed"] is agreed
    assert found["steps_key"] == ("run/0.0.0" if agreed else None)


def test_the_same_run_id_again_is_a_later_attempt():
    environs = [{"OTEL_RL_RUN_ID": "nightly"}, {"OTEL_RL_RUN_ID": "nightly"}]
    first, second = (launch.prepare(environ, begins=True).attempt for environ in environs)

    assert first < second


@pytest.mark.parametrize("user_id", [{}, {"OTEL_RL_RUN_ID": "nightly"}])
def test_all_tasks_of_a_slurm_step_come_to_the_same_launch(user_id):
    launches = [launch.prepare({**user_id, **_STEP, "SLURM_TASK_PID": str(os.getpid())}) for _ in range(2)]

    assert launches[0].run_id == launches[1].run_id == user_id.get("OTEL_RL_RUN_ID", "slurm-7.0")
    assert launches[0].attempt == launches[1].attempt


def test_a_script_inside_a_slurm_step_may_start_several_launches():
    launches = [launch.prepare({**_STEP, "SLURM_TASK_PID": "1"}) for _ in range(2)]

    assert launches[0].run_id != launches[1].run_id
    assert all(one.run_id.startswith("slurm-7.0-") for one in launches)


@pytest.mark.parametrize(
    ("environ", "leads"),
    [
        ({}, True),
        ({"RANK": "0"}, True),
        ({"RANK": "1"}, False),
        ({child_processes.MARKER: "1|driver|", "RANK": "0"}, False),
    ],
)
def test_one_process_speaks_for_the_launch(environ, leads):
    assert launcher_environment.detect(environ)["leads"] is leads


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["python", "/jobs/train_grpo.py"], "train_grpo"),
        (["python", "-m", "recipes.train"], "recipes.train"),
        (["python", "-c", "pass"], "python"),
        (["python"], "python"),
        (["python", "/usr/bin/trl", "grpo"], "trl"),
        (["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()"], "driver"),
    ],
)
def test_default_service_name(argv, expected):
    assert launcher_environment.service_name({child_processes.MARKER: "1|driver|"}, argv) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "/bin/jupyter-nbconvert", "--execute", "my book.ipynb", "--to", "html"], "my book"),
        (["python", "/bin/jupyter-execute", "books/grpo.ipynb"], "grpo"),
        (["python", "/bin/papermill", "in.ipynb", "out/done.ipynb"], "in"),
        (["python", "/bin/jupyter-nbconvert", "--execute", "a.ipynb", "b.ipynb"], "notebook"),
        (["python", "/bin/jupyter-lab"], "notebook"),
        ([], "notebook"),
    ],
)
def test_a_kernel_is_named_after_the_notebook_that_its_command_executes(monkeypatch, command, expected):
    monkeypatch.setattr(child_processes, "command_line", lambda pid: command)
    assert launcher_environment.service_name({}, ["python", "-m", "ipykernel_launcher", "-f", "x"]) == expected


def test_command_never_shows_arguments():
    assert launcher_environment.command(["python", "/x/train.py", "--api-key", "secret"]) == "train.py"
    assert launcher_environment.command(["python", "-c", "secret"]) == "python"


def test_a_program_that_replaces_itself_is_a_later_attempt():
    environ = {child_processes.MARKER: child_processes.marker(os.getpid(), "train", {})}
    first = launch.prepare(environ).attempt

    assert launch.prepare(environ, replaced=True).attempt == (*first[:2], first[2] + 1)
    assert launcher_environment.detect(environ)["attempt"] == "0.0.1"


def test_a_run_id_of_any_length_names_a_folder():
    names = {launch.safe("x" * 1000 + end) for end in "ab"}

    assert len(names) == 2
    assert all(len(name) == 160 for name in names)
    assert launch.safe("x" * 160) == "x" * 160
