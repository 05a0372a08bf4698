"""verl's own trainers on the CPU, watched: compared with verl's log of the same run.

`make test-systems` makes the environment and runs this. The platform and the rollout are ours, by verl's plugin points
(`verl/verl_cpu.py`); trainer, workers, agent loop, TransferQueue and reward loop are verl's.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from recorded_job import RecordedJob, assert_healthy
from support import shared_runs

from otel_rl.semconv import attributes as names
from otel_rl.store.reader import Log, Point

if TYPE_CHECKING:
    from otel_rl.store.reader import Record

HERE = Path(__file__).parent
SYSTEMS = Path(os.environ.get("OTEL_RL_SYSTEMS") or "-")
ENVIRONMENT = SYSTEMS / "verl" / "env" / "bin"
MODEL = SYSTEMS / "models" / "Qwen" / "Qwen2.5-0.5B-Instruct"
STEPS, PROMPTS, SAMPLES = 4, 4, 4
#: Phase -> verl's timers.
TIMERS = {
    "sample": ("gen",),
    "log_probs": ("old_log_prob", "ref"),
    "train": ("update_actor",),
    "sync": ("update_weights", "switch_to_trainer", "switch_to_rollout"),
}
#: Trainer -> what sets it apart from the default, the synchronous one of version 1.
TRAINERS = {
    "sync": (),
    "colocate_async": ("trainer.v1.trainer_mode=colocate_async",),
    "separate_async": (
        "trainer.v1.trainer_mode=separate_async",
        "trainer.v1.separate_async.parameter_sync_step=1",
        "actor_rollout_ref.rollout.nnodes=1",
        "actor_rollout_ref.rollout.n_gpus_per_node=1",
        "actor_rollout_ref.rollout.checkpoint_engine.backend=file",
        "actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module=verl_cpu_weights",
        "+actor_rollout_ref.rollout.checkpoint_engine.engine_kwargs.file.folder={folder}/weights",
        "ray_kwargs.ray_init.num_gpus=2",
        "ray_kwargs.ray_init.num_cpus=12",
    ),
    "version_0": ("trainer.use_v1=False",),
}
ASYNCHRONOUS = ("colocate_async", "separate_async")
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_raylet_start_wait_time_s": "300",
    # Not a cluster that somebody else has started here.
    "RAY_ADDRESS": "local",
    "OMP_NUM_THREADS": "1",
    "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",
    "PYTHONPATH": str(HERE / "verl"),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ENVIRONMENT.is_dir(), reason="OTEL_RL_SYSTEMS names no folder with verl/env"),
]


def _arguments(folder: Path) -> list[str]:
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    return [
        "algorithm.adv_estimator=grpo",
        f"data.train_files={folder}/train.parquet",
        f"data.val_files={folder}/train.parquet",
        f"data.train_batch_size={PROMPTS}",
        "data.max_prompt_length=64",
        "data.max_response_length=16",
        "data.dataloader_num_workers=0",
        f"actor_rollout_ref.model.path={MODEL}",
        "actor_rollout_ref.model.use_remove_padding=False",
        "+actor_rollout_ref.model.override_config.attn_implementation=eager",
        f"{actor}.strategy=fsdp2",
        f"{actor}.ppo_mini_batch_size={PROMPTS}",
        f"{actor}.ppo_micro_batch_size_per_gpu=4",
        f"{actor}.optim.lr=1e-3",
        f"{actor}.use_torch_compile=False",
        f"{actor}.use_kl_loss=True",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.ref.use_torch_compile=False",
        f"{rollout}.log_prob_micro_batch_size_per_gpu=4",
        f"{rollout}.name=cpu",
        f"{rollout}.n={SAMPLES}",
        f"{rollout}.tensor_model_parallel_size=1",
        f"{rollout}.agent.num_workers=1",
        f"{rollout}.calculate_log_probs=True",
        "trainer.device=cpu",
        "trainer.n_gpus_per_node=1",
        "trainer.nnodes=1",
        "trainer.logger=[console,file]",
        f"trainer.total_training_steps={STEPS}",
        "trainer.save_freq=-1",
        "trainer.test_freq=-1",
        "trainer.val_before_train=False",
        f"trainer.default_local_dir={folder}/checkpoints",
        "+ray_kwargs.ray_init.num_gpus=1",
        "ray_kwargs.ray_init.num_cpus=6",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        "reward.num_workers=1",
        f"reward.custom_reward_function.path={HERE}/verl/reward_fn.py",
        "reward.custom_reward_function.name=compute_score",
    ]


def _train(folder: Path, trainer: str) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "RAY_"))}
    environ = clean | VARIABLES | {"OTEL_RL_DATA_DIR": str(folder / "otel-rl"), "OTEL_RL_RUN_ID": "run"}
    environ |= {"VERL_FILE_LOGGER_PATH": str(folder / "log.jsonl"), "PATH": f"{ENVIRONMENT}:{os.environ['PATH']}"}
    subprocess.run(["python", HERE / "verl" / "make_data.py", folder / "train.parquet"], env=environ, check=True)
    command = ["opentelemetry-instrument", "python", "-m", "verl.trainer.main_ppo"]
    with (folder / "output").open("w") as output:
        subprocess.run(
            [*command, *_arguments(folder), *(argument.format(folder=folder) for argument in TRAINERS[trainer])],
            env=environ,
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=1800,
            check=True,
        )


class Run(RecordedJob):
    """What verl logged, and what was recorded."""

    def __init__(self, folder: Path, trainer: str) -> None:
        self.trainer = trainer
        lines = (folder / "log.jsonl").read_text().splitlines()
        self.logged = {
            (one["step"], key): value for one in map(json.loads, lines) for key, value in one["data"].items()
        }
        self.rewards: dict[int, list[float]] = defaultdict(list)
        #: Rollout that was trained on -> its age.
        self.trained: dict[str, float | None] = {}
        self.queue: dict[str, float] = {}
        super().__init__(folder, "otel_rl.verl")

    def add(self, record: Record) -> None:
        super().add(record)
        if isinstance(record, Point) and record.metric == "rl.sample.queue.size":
            self.queue[record.attributes[names.RL_SAMPLE_STATE]] = record.value
        elif isinstance(record, Log) and record.event == "rl.trajectories":
            self.rewards[record.attributes[names.RL_LOOP_ITERATION]] += record.body[names.RL_ROLLOUT_REWARD]
        elif isinstance(record, Log) and record.event == "rl.trajectories.changes":
            ids = record.body[names.RL_ROLLOUT_ID]
            self.trained |= zip(ids, record.body.get(names.RL_ROLLOUT_AGE, [None] * len(ids)), strict=True)


@pytest.fixture(scope="module", params=TRAINERS)
def run(request, tmp_path_factory) -> Run:
    trainer = request.param
    folder = shared_runs.once(tmp_path_factory, f"verl-{trainer}", lambda folder: _train(folder, trainer))
    return Run(folder, trainer)


def test_the_steps_are_those_that_verl_counts(run):
    assert sorted(run.steps) == list(range(1, STEPS + 1)) == sorted({step for step, _ in run.logged})


def test_every_value_that_verl_logs_is_recorded_with_its_step_and_no_other(run):
    assert run.values.keys() == run.logged.keys()
    assert {key: float(value) for key, value in run.values.items()} == pytest.approx(run.logged, nan_ok=True)


def test_phases_take_as_long_as_verls_own_timer_says(run):
    for step in run.steps:
        for phase, timers in TIMERS.items():
            logged = sum(run.logged.get((step, f"timing_s/{timer}"), 0.0) for timer in timers)
            assert run.phases[step, phase] == pytest.approx(logged, rel=0.01, abs=0.002), (step, phase)


def test_each_sample_is_a_row_and_its_rewards_are_verls(run):
    samples = PROMPTS * SAMPLES
    scores = {step: samples * run.logged[step, "critic/score/mean"] for step in run.steps}
    if run.trainer in ASYNCHRONOUS:
        # A sample is of the step that asked for it, and may be trained on in a later one, or in none.
        assert len(run.trained) == STEPS * samples
        assert sum(run.rows[name][names.RL_ROLLOUT_REWARD] for name in run.trained) == pytest.approx(
            sum(scores.values())
        )
    else:
        assert {step: len(rewards) for step, rewards in run.rewards.items()} == dict.fromkeys(run.steps, samples)
        assert {step: sum(rewards) for step, rewards in run.rewards.items()} == pytest.approx(scores)


def test_the_age_of_each_trained_sample_and_what_stays_in_the_queue_are_known(run):
    if run.trainer == "version_0":
        pytest.skip("it has no queue")
    assert len(run.trained) == STEPS * PROMPTS * SAMPLES
    assert all(age is not None and 0 < age < 600 for age in run.trained.values())
    assert run.queue.keys() == {"pending", "running", "finished", "failed"}
    if run.trainer == "sync":
        assert set(run.queue.values()) == {0}


def test_what_the_workers_do_is_in_the_trace_of_the_step(run):
    steps = {span.trace_id for span in run.spans if span.name == "rl.loop"}
    of_workers = {span.name for span in run.spans if span.scope == "otel_rl.ray" and span.trace_id in steps}
    assert {"WorkerDict.actor_rollout_ref_compute_log_prob", "WorkerDict.actor_rollout_ref_update_actor"} <= of_workers
    backward = [span for span in run.spans if span.name == "rl.backward"]
    assert backward
    assert {span.trace_id for span in backward} <= steps


def test_rollouts_have_traces_of_their_own_linked_to_a_step_with_the_call_of_the_engine(run):
    rollouts = [span for span in run.spans if span.name == "rl.rollout"]
    # Of the separate trainer one step asks for two batches: not all of its rollouts send spans.
    assert len(rollouts) == STEPS * PROMPTS * SAMPLES or run.trainer == "separate_async"
    assert len(rollouts) >= PROMPTS * SAMPLES
    traces = {span.trace_id for span in rollouts}
    assert len(traces) == len(rollouts)
    calls = [span for span in run.spans if span.name == "CPUServer.generate" and span.trace_id in traces]
    assert len(calls) == len(rollouts)
    versions = {span.attributes.get("rl.inference.weight_version") for span in run.spans if "completion" in span.name}
    # The asynchronous trainers ask for the samples of several steps at once.
    assert len(versions - {None}) >= (2 if run.trainer in ASYNCHRONOUS else STEPS - 1)


def test_a_healthy_run_has_neither_a_warning_nor_a_critical_finding(run, tmp_path):
    assert_healthy(run.folder, tmp_path)
