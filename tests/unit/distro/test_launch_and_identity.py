"""Run id, identity and service name from the launcher's environment."""

from __future__ import annotations

import pytest

from otel_rl.process import child_processes, launch, launcher_environment


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
        ({"TORCHELASTIC_RUN_ID": "none"}, [], None),
        ({"TORCHELASTIC_RUN_ID": "job9"}, [], "job9"),
        ({"PET_RDZV_ID": "job9"}, [], "job9"),
        ({}, ["torchrun", "--rdzv-id=job9"], "job9"),
        ({}, ["torchrun", "--rdzv_id", "job9"], "job9"),
        ({}, ["torchrun", "--rdzv-id"], None),
        ({"AZUREML_RUN_ID": "az"}, [], "az"),
    ],
)
def test_job_id_of_the_launcher(environ, argv, expected):
    assert launch.launcher_job(environ, argv) == expected


def test_random_run_ids_differ():
    environs = [{}, {}]
    for environ in environs:
        launch.prepare(environ)

    assert environs[0]["OTEL_RL_RUN_ID"] != environs[1]["OTEL_RL_RUN_ID"]


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


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (
            {"TORCHELASTIC_RUN_ID": "none", "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "GROUP_RANK": "1"},
            {"rank": 3, "local_rank": 1, "world_size": 8, "node_rank": 1, "launcher": "torchrun", "job_id": None},
        ),
        (
            {"SLURM_JOB_ID": "7", "SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_NODEID": "1", "SLURM_NTASKS": "4"},
            {"rank": 2, "local_rank": 0, "world_size": None, "node_rank": 1, "launcher": "slurm", "job_id": "7"},
        ),
        (
            {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "RANK": "5", "TORCHELASTIC_RUN_ID": "x"},
            {"rank": 5, "launcher": "torchrun", "job_id": "7"},
        ),
        (
            {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
            {"rank": 1, "world_size": 2, "local_rank": 1, "launcher": "mpi"},
        ),
        ({"RAY_RAYLET_PID": "1", "RAY_JOB_ID": "ffffffff"}, {"rank": None, "launcher": "ray", "job_id": None}),
        ({"KUBERNETES_SERVICE_HOST": "h", "JOB_COMPLETION_INDEX": "4"}, {"launcher": "kubernetes", "node_rank": 4}),
        ({"RANK": "first"}, {"rank": None, "launcher": "none"}),
        ({"TORCHELASTIC_RESTART_COUNT": "2", "SLURM_RESTART_COUNT": "1"}, {"attempt": 3}),
    ],
)
def test_identity_from_the_environment(environ, expected):
    found = launcher_environment.detect(environ)

    assert {field: found[field] for field in expected} == expected


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


def test_command_never_shows_arguments():
    assert launcher_environment.command(["python", "/x/train.py", "--api-key", "secret"]) == "train.py"
    assert launcher_environment.command(["python", "-c", "secret"]) == "python"
