"""SkyRL's trainers on the CPU, watched: compared with what SkyRL's own logger got in the same run.

`make test-systems` makes the environment and runs this. The models are simulated (`skyrl/simulation.py`), so nothing is
said of SkyRL's workers here; loop, generator, environments, rewards and the client of the engines are SkyRL's.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from recorded_job import RecordedJob, assert_healthy
from support import shared_runs

from otel_rl.semconv import attributes as names

HERE = Path(__file__).parent / "skyrl"
SYSTEMS = Path(os.environ.get("OTEL_RL_SYSTEMS") or "-")
ENVIRONMENT = SYSTEMS / "skyrl" / "env" / "bin"
MODEL = SYSTEMS / "models" / "Qwen" / "Qwen3-0.6B"
STEPS, PROMPTS, SAMPLES = 4, 4, 2
#: Phase -> SkyRL's timers, of one trainer or the other.
TIMERS = {
    "sample": ("generate", "wait_for_generation_buffer"),
    "log_probs": ("fwd_logprobs_values_reward",),
    "train": ("train_critic_and_policy", "run_training"),
    "sync": ("sync_weights",),
}
#: Trainer -> what sets it apart.
TRAINERS = {
    "fully_async": (
        "trainer.fully_async.enabled=true",
        "trainer.algorithm.policy_loss_type=rollout_is",
        "trainer.eval_interval=0",
    ),
    "sync": ("trainer.eval_interval=2",),
}
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    # Not a cluster that somebody else has started here.
    "RAY_ADDRESS": "local",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(HERE),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ENVIRONMENT / "ray").exists(), reason="OTEL_RL_SYSTEMS names no folder with skyrl/env"),
]


def _arguments(folder: Path, port: int) -> list[str]:
    data, engine = f"['{folder}/train.parquet']", "generator.inference_engine"
    return [
        f"data.train_data={data}",
        f"data.val_data={data}",
        "data.dataloader.num_workers=0",
        "environment.env_class=gsm8k",
        f"{engine}.backend=vllm",
        f"{engine}.num_engines=1",
        f"{engine}.tensor_parallel_size=1",
        f"{engine}.run_engines_locally=false",
        f"{engine}.external_proxy_url=http://127.0.0.1:{port}",
        f"{engine}.external_server_urls=['http://127.0.0.1:{port}']",
        "generator.sampling_params.max_generate_length=24",
        "generator.batched=false",
        f"generator.n_samples_per_prompt={SAMPLES}",
        "generator.eval_n_samples_per_prompt=1",
        "trainer.fully_async.simulate_training=true",
        "trainer.fully_async.simulate_training_step_seconds=1",
        "trainer.fully_async.simulate_weight_sync_seconds=0.3",
        "trainer.fully_async.max_staleness_steps=1",
        f"trainer.fully_async.num_parallel_generation_workers={PROMPTS}",
        "trainer.algorithm.advantage_estimator=grpo",
        f"trainer.policy.model.path={MODEL}",
        "trainer.placement.colocate_all=false",
        "trainer.placement.policy_num_gpus_per_node=1",
        "trainer.strategy=fsdp",
        "trainer.epochs=1",
        f"trainer.train_batch_size={PROMPTS}",
        f"trainer.policy_mini_batch_size={PROMPTS}",
        f"trainer.eval_batch_size={STEPS * PROMPTS}",
        "trainer.micro_forward_batch_size_per_gpu=1",
        "trainer.micro_train_batch_size_per_gpu=1",
        "trainer.eval_before_train=false",
        "trainer.ckpt_interval=-1",
        "trainer.hf_save_interval=-1",
        "trainer.resume_mode=none",
        "trainer.max_prompt_length=512",
        "trainer.logger=console",
        "trainer.project_name=sim",
        "trainer.run_name=sim",
        f"trainer.log_path={folder}/logs",
        f"trainer.export_path={folder}/export",
        f"trainer.ckpt_path={folder}/checkpoints",
    ]


def _train(folder: Path, trainer: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "RAY_"))}
    environ = clean | VARIABLES | {"OTEL_RL_DATA_DIR": str(folder / "otel-rl"), "OTEL_RL_RUN_ID": "run"}
    environ |= {"SKYRL_TRUTH": str(folder / "truth.jsonl"), "PATH": f"{ENVIRONMENT}:{os.environ['PATH']}"}
    data = ["python", HERE / "make_data.py", folder / "train.parquet", str(STEPS * PROMPTS)]
    subprocess.run(data, env=environ, check=True)
    command = ["opentelemetry-instrument", "python", HERE / "simulation.py", trainer]
    command += [*_arguments(folder, port), *TRAINERS[trainer]]
    with (folder / "engine").open("w") as engine, (folder / "output").open("w") as output:
        served = subprocess.Popen(["python", HERE / "engine.py", str(port), MODEL], env=environ, stderr=engine)
        try:
            subprocess.run(
                command, env=environ, cwd=folder, stdout=output, stderr=subprocess.STDOUT, timeout=1800, check=True
            )
        finally:
            served.terminate()
            served.wait(30)


class Run(RecordedJob):
    """What SkyRL had itself, and what was recorded."""

    def __init__(self, folder: Path) -> None:
        self.logged: dict[tuple[int, str], Any] = {}
        #: Step -> reward of each of its samples, by the id of the rollout.
        self.samples: dict[int, dict[str, float]] = {}
        for line in (folder / "truth.jsonl").read_text().splitlines():
            self._add_truth(json.loads(line))
        super().__init__(folder, "otel_rl.skyrl")

    def _add_truth(self, record: dict[str, Any]) -> None:
        step = record["step"]
        if record["kind"] == "log":
            self.logged |= {(step, key): value for key, value in record["data"].items()}
            return
        seen: Counter[str] = Counter()
        self.samples[step] = {}
        for uid, reward in zip(record["uids"], record["rewards"], strict=True):
            self.samples[step][f"{uid}_{seen[uid]}"] = reward
            seen[uid] += 1


@pytest.fixture(scope="module", params=TRAINERS)
def run(request, tmp_path_factory) -> Run:
    trainer = request.param
    folder = shared_runs.once(tmp_path_factory, f"skyrl-{trainer}", lambda folder: _train(folder, trainer))
    return Run(folder)


def test_the_steps_are_those_that_skyrl_counts(run):
    assert sorted(run.steps) == list(range(1, STEPS + 1)) == sorted({step for step, _ in run.logged})


def test_every_value_that_skyrl_logs_is_recorded_with_its_step_and_no_other(run):
    assert run.values.keys() == run.logged.keys()
    assert {key: float(value) for key, value in run.values.items()} == pytest.approx(run.logged, nan_ok=True)


def test_phases_take_as_long_as_skyrls_own_timer_says(run):
    for step in run.steps:
        for phase, timers in TIMERS.items():
            logged = sum(run.logged.get((step, f"timing/{timer}"), 0.0) for timer in timers)
            assert run.phases[step, phase] == pytest.approx(logged, rel=0.01, abs=0.002), (step, phase)


def test_evaluations_take_as_long_as_skyrls_own_timer_says_after_their_steps(run):
    logged = [value for (_, key), value in sorted(run.logged.items()) if key == "timing/eval"]
    spans = sorted((span for span in run.spans if span.name == "rl.evaluate"), key=lambda span: span.start)
    assert [span.seconds for span in spans] == pytest.approx(logged, rel=0.01, abs=0.002)


def test_each_sample_is_a_row_with_skyrls_reward(run):
    trained = {name: reward for samples in run.samples.values() for name, reward in samples.items()}
    assert {name: row[names.RL_ROLLOUT_REWARD] for name, row in run.rows.items()} == trained
    assert len(trained) == STEPS * PROMPTS * SAMPLES
    assert any(trained.values())


def test_rollouts_begin_in_the_step_before_the_one_that_trains_on_them_or_in_that(run):
    for step, samples in run.samples.items():
        assert {step - run.rows[name]["step"] for name in samples} <= {0, 1}


def test_rollouts_of_an_evaluation_are_rows_apart(run):
    evaluations = sum(key == "timing/eval" for _, key in run.logged)
    assert len(run.evaluated) == evaluations * STEPS * PROMPTS


def test_each_rollout_is_a_trace_of_its_own_with_one_call_of_the_engine_and_the_version_of_its_weights(run):
    rollouts = {span.trace_id: span for span in run.spans if span.name == "rl.rollout"}
    assert len(rollouts) == len(run.rows) + len(run.evaluated)
    calls = [span for span in run.spans if span.name.startswith("text_completion")]
    assert Counter(span.trace_id for span in calls) == Counter(rollouts.keys())
    assert all(span.attributes[names.GEN_AI_USAGE_OUTPUT_TOKENS] > 0 for span in calls)
    versions = {span.attributes[names.RL_INFERENCE_WEIGHT_VERSION] for span in calls}
    assert {"1", "2", "3"} <= versions


def test_the_work_of_the_trainer_is_that_of_a_driver(run):
    roles = {json.loads(file.read_text())["role"] for file in run.folder.glob("otel-rl/run/*/manifest.json")}
    assert "driver" in roles
    assert [span.name for span in run.spans if span.scope == "otel_rl.ray" and span.name == "run"]


def test_the_timer_logs_the_trainer_as_its_caller(run):
    assert "otel_rl" not in "".join(line for line in (run.folder / "output").open() if "Started: " in line)


def test_a_healthy_run_has_neither_a_warning_nor_a_critical_finding(run, tmp_path):
    assert_healthy(run.folder, tmp_path)
