"""``OTEL_RL_WRITE_BACK`` with real trackers: the program's own rows stay as they are, ours are beside them."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from support import forked_programs
from support.forked_programs import Program

SCRIPTS = Path(sys.executable).parent
TRAINING = """
import time, otel_rl
def train(log):
    for number in range(1, 4):
        with otel_rl.step(number), otel_rl.phase("train"):
            time.sleep(0.01)
        log(number)
"""
STEPS = [1, 2, 3]


@pytest.fixture
def trains(tmp_path):
    """Runs a program under opentelemetry-instrument, in a folder of its own."""

    def run(tracker, text):
        program = tmp_path / "program.py"
        program.write_text(TRAINING + text, encoding="utf-8")
        own = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "MLFLOW_"))}
        variables = {
            "OTEL_RL_WRITE_BACK": tracker,
            "OTEL_RL_RAISE_INTERNAL_ERRORS": "1",
            "WANDB_MODE": "offline",
            "TRACKIO_DIR": str(tmp_path / "trackio"),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_ALLOW_FILE_STORE": "true",
        }
        done = subprocess.run(
            [SCRIPTS / "opentelemetry-instrument", sys.executable, program],
            cwd=tmp_path,
            env={**own, **variables},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


BOARD = """
from {library} import SummaryWriter
writer = SummaryWriter("events")
train(lambda number: writer.add_scalar("loss", 1 / number, number))
{end}
"""
ENDS = {"left open": "", "closed": "writer.close()"}
LIBRARIES = ("torch.utils.tensorboard", "tensorboardX")


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """Programs with a writer by its library and how it ends; they share the import of torch, which both need."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("boards")
    own = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    variables = {"OTEL_RL_WRITE_BACK": "tensorboard", "OTEL_RL_RAISE_INTERNAL_ERRORS": "1"}
    programs = {}
    for library, (name, end) in itertools.product(LIBRARIES, ENDS.items()):
        file = folder / f"{library} {name}.py"
        file.write_text(TRAINING + BOARD.format(library=library, end=end), encoding="utf-8")
        programs[library, name] = Program([str(file)], str(file.with_suffix("")), variables)
    forked_programs.run(["torch"], list(programs.values()), own)
    return programs


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_tensorboard_has_both_by_step(boards, library, end):
    pytest.importorskip(library)
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    boards[library, end].check()
    events = accumulator.EventAccumulator(str(Path(boards[library, end].folder) / "events"))
    events.Reload()
    assert [point.step for point in events.Scalars("loss")] == STEPS
    assert [point.step for point in events.Scalars("otel_rl/phase/train")] == STEPS
    assert all(point.value > 0.005 for point in events.Scalars("otel_rl/seconds"))


@pytest.mark.parametrize("store", ["sqlite:///m.db", "file:files"])
def test_mlflow_has_both_by_step(trains, store):
    pytest.importorskip("mlflow")
    said = trains(
        "mlflow",
        f"""
import json, mlflow
mlflow.set_tracking_uri("{store}")
with mlflow.start_run() as run:
    train(lambda number: mlflow.log_metric("loss", 1 / number, step=number))
client = mlflow.MlflowClient()
keys = ("loss", "otel_rl/phase/train")
curves = {{key: [point.step for point in client.get_metric_history(run.info.run_id, key)] for key in keys}}
print(json.dumps([curves, client.get_run(run.info.run_id).data.tags["otel_rl/run_id"]]))
""",
    )
    curves, run_id = json.loads(said.splitlines()[-1])
    assert curves == {"loss": STEPS, "otel_rl/phase/train": STEPS}
    assert run_id


def test_trackio_keeps_the_programs_steps(trains, tmp_path):
    pytest.importorskip("trackio")
    trains(
        "trackio",
        """
import trackio
trackio.init(project="tried", embed=False)
train(lambda number: trackio.log({"loss": 1 / number}))
trackio.finish()
""",
    )
    [database] = (tmp_path / "trackio").glob("*.db")
    with sqlite3.connect(database) as connection:
        rows = [(step, json.loads(text)) for step, text in connection.execute("select step, metrics from metrics")]
    assert [step for step, values in rows if "loss" in values] == [0, 1, 2]
    assert [values["otel_rl/step"] for _, values in rows if "otel_rl/step" in values] == STEPS


@pytest.mark.parametrize("end", ["", "run.finish()"], ids=["left open", "closed"])
def test_wandb_keeps_the_programs_rows(trains, tmp_path, end):
    pytest.importorskip("wandb")
    trains(
        "wandb",
        f"""
import wandb
run = wandb.init(project="tried")
train(lambda number: run.log({{"loss": 1 / number}}, step=10 * number))
{end}
""",
    )
    [path] = tmp_path.glob("wandb/offline-run-*/*.wandb")
    rows = [row for record in _records(path) if (row := _history(record))]
    assert [int(row["_step"]) for row in rows if "loss" in row] == [10, 20, 30]
    assert int(rows[-1]["otel_rl/step"]) == STEPS[-1]
    assert float(rows[-1]["otel_rl/phase/train"]) > 0.005


def _records(path):
    """Records of an offline run: the log format of LevelDB, in blocks of 32 KiB behind a head of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


def _history(record):
    return {"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
