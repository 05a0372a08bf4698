"""slime's programs on the CPU, watched: compared with what slime keeps and logs itself in the same run.

The driver, the manager, the router, SGLang's server, the rank of Megatron and the sync of its weights over the disk are
the real ones. Below them `slime/slime_cpu.py` and `slime/megatron_cpu.py` replace what only a GPU has: functions of
`torch.cuda`, the layers of Transformer Engine, attention within packed sequences.

OTEL_RL_SYSTEMS names a folder with slime/env (SGLang 0.5.23, Ray and what slime imports, and this checkout), slime/src
(THUDM/slime 624b824), slime/megatron (NVIDIA/Megatron-LM 1dcf0da with slime's patch) and models.
"""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from recorded_job import RecordedJob, assert_healthy
from support import shared_runs

from otel_rl.semconv import attributes as names

HERE = Path(__file__).parent / "slime"
SERVER = Path(__file__).parents[1] / "engines" / "sglang_on_cpu.py"
SYSTEMS = Path(os.environ.get("OTEL_RL_SYSTEMS") or "-")
ENVIRONMENT = SYSTEMS / "slime" / "env" / "bin"
SOURCE, MEGATRON = SYSTEMS / "slime" / "src", SYSTEMS / "slime" / "megatron"
MODEL = SYSTEMS / "models" / "Qwen" / "Qwen3-0.6B"
STEPS, PROMPTS, SAMPLES = 3, 4, 2
#: Program -> options of its own. One logs to a tracker, the other to none.
PROGRAMS = {
    "train.py": "--use-tensorboard --tb-project-name p --tb-experiment-name e --eval-interval 2",
    "train_async.py": "",
}
OPTIONS = f"""
--hf-checkpoint {MODEL} --load {MODEL} --input-key prompt --label-key label --rollout-shuffle
--custom-rm-path reward_fn.letters --num-rollout {STEPS} --rollout-batch-size {PROMPTS} --n-samples-per-prompt {SAMPLES}
--global-batch-size {PROMPTS * SAMPLES} --rollout-max-response-len 16 --rollout-temperature 1
--advantage-estimator grpo --actor-num-nodes 1 --actor-num-gpus-per-node 1 --rollout-num-gpus-per-engine 1
--update-weight-transport disk --distributed-backend gloo --micro-batch-size 1 --lr 1e-3 --lr-decay-style constant
--kl-coef 0.01 --ref-load {MODEL}
--num-layers 2 --hidden-size 64 --ffn-hidden-size 128 --num-attention-heads 4 --group-query-attention
--num-query-groups 2 --kv-channels 16 --use-rotary-position-embeddings --rotary-base 10000 --disable-bias-linear
--normalization RMSNorm --norm-epsilon 1e-6 --qk-layernorm --swiglu --vocab-size 512 --make-vocab-size-divisible-by 1
--transformer-impl local --attention-dropout 0 --hidden-dropout 0 --no-masked-softmax-fusion --no-rope-fusion
--no-gradient-accumulation-fusion --no-bias-swiglu-fusion --no-persist-layer-norm
"""
ENGINE = """
--device cpu --attention-backend torch_native --sampling-backend pytorch --grammar-backend none --dtype float32
--disable-overlap-schedule --disable-radix-cache --max-total-tokens 8192 --host 127.0.0.1 --skip-server-warmup
--enable-metrics --sleep-on-idle
"""
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    # Not a cluster that somebody else has started here.
    "RAY_ADDRESS": "local",
    "OMP_NUM_THREADS": "1",
    # Compilers take minutes for functions that are called ten times here.
    "TORCHDYNAMO_DISABLE": "1",
    "SGLANG_USE_CPU_ENGINE": "1",
    "SLIME_HOST_IP": "127.0.0.1",
    "SLIME": str(SOURCE),
    "PYTHONPATH": os.pathsep.join(map(str, (SOURCE, MEGATRON, HERE))),
}
#: What slime logs, as it prints it: `perf 0: {'rollout/...': ...}`.
_PRINTED = re.compile(r"(?:perf|rollout|eval) (\d+): (\{.*\})$")
_TRAINED = re.compile(r"step (\d+): (\{.*\})$")
#: Its clock that tells how long the manager took.
ROLLOUT_TIME = "perf/rollout_time"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not ((ENVIRONMENT / "ray").exists() and SOURCE.exists() and MEGATRON.exists()),
        reason="OTEL_RL_SYSTEMS names no folder with slime/env, slime/src and slime/megatron",
    ),
]


def _environment() -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "RAY_"))}
    return clean | VARIABLES | {"PATH": f"{ENVIRONMENT}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """SGLang's server, which is not watched."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["python", SERVER, "--model-path", MODEL, "--port", str(port), *ENGINE.split()]
    with (tmp_path_factory.mktemp("engine") / "output").open("w") as output:
        served = subprocess.Popen(command, env=_environment(), stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_for(port, served)
            yield f"127.0.0.1:{port}"
        finally:
            served.terminate()
            with suppress(subprocess.TimeoutExpired):
                served.wait(60)
            served.kill()
            served.wait()


def _wait_for(port: int, served: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + 900
    while time.monotonic() < ends and served.poll() is None:
        try:
            with urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(2)
    raise RuntimeError("SGLang's server does not answer")


def _train(folder: Path, program: str, engine: str) -> None:
    environ = _environment() | {"OTEL_RL_DATA_DIR": str(folder / "otel-rl"), "OTEL_RL_RUN_ID": "run"}
    environ["TENSORBOARD_DIR"] = str(folder / "tensorboard")
    data = folder / "data.jsonl"
    subprocess.run(["python", HERE / "make_data.py", data, "16"], env=environ, check=True)
    options = [*OPTIONS.split(), "--prompt-data", data, "--rollout-external-engine-addrs", engine]
    options += ["--eval-prompt-data", "sums", data, "--update-weight-disk-dir", folder / "weights"]
    options += ["--save-debug-rollout-data", folder / "{rollout_id}.pt", *PROGRAMS[program].split()]
    command = ["opentelemetry-instrument", "python", HERE / "job.py", program, *options]
    with (folder / "output").open("w") as output:
        subprocess.run(
            command, env=environ, cwd=folder, stdout=output, stderr=subprocess.STDOUT, timeout=1800, check=True
        )
    with (folder / "samples.json").open("w") as samples:
        subprocess.run(["python", HERE / "samples.py", folder], env=environ, stdout=samples, check=True)


class Run(RecordedJob):
    """What slime had itself, and what was recorded."""

    def __init__(self, folder: Path, program: str) -> None:
        self.program = program
        #: File of slime's -> its samples.
        self.samples: dict[str, list[dict[str, Any]]] = json.loads((folder / "samples.json").read_text())
        self.logged: dict[tuple[int, str], Any] = {}
        for line in (folder / "output").read_text().splitlines():
            self._add_line(line)
        super().__init__(folder, "otel_rl.slime")

    def _add_line(self, line: str) -> None:
        found = _PRINTED.search(line) or _TRAINED.search(line)
        if found is not None:
            values = ast.literal_eval(re.sub(r"\b(nan|inf)\b", "None", found[2]))
            self.logged |= {(int(found[1]), key): value for key, value in values.items()}


@pytest.fixture(scope="module", params=PROGRAMS)
def run(request, tmp_path_factory, engine) -> Run:
    program = request.param
    folder = shared_runs.once(tmp_path_factory, f"slime-{program}", lambda folder: _train(folder, program, engine))
    return Run(folder, program)


def test_the_steps_are_those_of_the_loop_and_no_log_makes_others(run):
    assert sorted(run.steps) == list(range(STEPS))
    assert len([span for span in run.spans if span.name == "rl.loop"]) == STEPS


def test_every_value_that_slime_logs_is_recorded_once_with_its_step_and_no_other(run):
    steps = ("train/step", "rollout/step", "eval/step")
    recorded = {(step, key): value for step, key, value in run.recorded if key not in steps}
    assert len([key for _, key, _ in run.recorded if key not in steps]) == len(recorded)
    assert recorded.keys() == {(step, key) for step, key in run.logged if key not in steps}
    printed = {key: value for key, value in run.logged.items() if key in recorded and value is not None}
    assert {key: recorded[key] for key in printed} == pytest.approx(printed)


def test_the_driver_waits_as_long_as_the_manager_and_the_rank_work(run):
    for step in run.steps:
        if run.program == "train.py":
            assert run.phases[step, "sample"] >= run.logged[step, ROLLOUT_TIME]
        assert run.phases[step, "train"] >= run.logged[step, "perf/train_time"]
        log_probs = sum(run.logged.get((step, f"perf/{name}_time"), 0.0) for name in ("log_probs", "ref_log_probs"))
        assert run.phases[step, "log_probs"] == pytest.approx(log_probs, rel=0.05, abs=0.005)
        assert run.phases[step, "sync"] > 0
        assert sum(run.phases[step, name] for name in ("sample", "train", "sync", "evaluate")) <= run.steps[step]


def test_each_sample_that_slime_keeps_is_a_row_with_its_reward_and_the_step_that_trains_on_it(run):
    kept = {str(sample["index"]): sample for step in range(STEPS) for sample in run.samples[str(step)]}
    assert len(kept) == STEPS * PROMPTS * SAMPLES
    assert {name: row[names.RL_ROLLOUT_REWARD] for name, row in run.rows.items()} == {
        name: sample["reward"] for name, sample in kept.items()
    }
    assert len({sample["reward"] for sample in kept.values()}) > 1
    for step in range(STEPS):
        assert {run.rows[str(sample["index"])]["step"] for sample in run.samples[str(step)]} == {step}


def test_rows_have_the_group_the_tokens_and_the_end_of_their_sample(run):
    for sample in (sample for step in range(STEPS) for sample in run.samples[str(step)]):
        row = run.rows[str(sample["index"])]
        assert row[names.RL_GROUP_ID] == str(sample["group_index"])
        assert row[names.RL_ROLLOUT_OUTPUT_TOKENS] == sample["response_length"]
        assert row[names.RL_ROLLOUT_STOP_REASON] == {"truncated": "length", "completed": "stop"}[sample["status"]]


def test_rows_have_the_versions_of_the_weights_that_slime_keeps(run):
    for sample in (sample for step in range(STEPS) for sample in run.samples[str(step)]):
        row = run.rows[str(sample["index"])]
        versions = [int(version) for version in sample["weight_versions"]]
        assert (row[names.RL_ROLLOUT_POLICY_VERSION_MIN], row[names.RL_ROLLOUT_POLICY_VERSION_MAX]) == (
            min(versions),
            max(versions),
        )


def test_samples_of_an_evaluation_are_rows_apart(run):
    evaluations = [samples for name, samples in run.samples.items() if name.startswith("eval")]
    assert len(evaluations) == (2 if run.program == "train.py" else 0)
    assert sorted(row[names.RL_ROLLOUT_REWARD] for row in run.evaluated) == sorted(
        sample["reward"] for samples in evaluations for sample in samples
    )


def test_each_rollout_is_a_trace_of_its_own_with_its_call_of_sglang(run):
    rollouts = {span.trace_id: span for span in run.spans if span.name == "rl.rollout"}
    assert len(rollouts) == len(run.rows) + len(run.evaluated)
    assert not {span.trace_id for span in run.spans if span.name == "rl.loop"} & rollouts.keys()
    calls = [span for span in run.spans if names.GEN_AI_USAGE_OUTPUT_TOKENS in span.attributes]
    assert Counter(span.trace_id for span in calls if span.trace_id in rollouts) == Counter(rollouts.keys())


def test_a_sync_of_each_step_brings_the_next_version(run):
    brought = [
        span
        for span in run.spans
        if span.attributes.get(names.RL_SYNC_OPERATION) == "update_weights_from_disk"
        and names.RL_LOOP_ITERATION in span.attributes
    ]
    found = {span.attributes[names.RL_LOOP_ITERATION]: span.attributes[names.RL_POLICY_VERSION] for span in brought}
    # The first one comes before the loop. The engine's actor is killed soon after the last, which may be lost.
    assert found.items() <= {step: str(step + 2) for step in range(STEPS)}.items()
    assert found.keys() >= set(range(STEPS - 1))


def test_the_work_is_that_of_a_driver_a_manager_a_rank_and_an_engine(run):
    manifests = [json.loads(file.read_text()) for file in run.folder.glob("otel-rl/run/*/manifest.json")]
    roles = {manifest["worker_name"]: manifest["role"] for manifest in manifests}
    assert roles[None] == "driver"
    assert roles["RolloutManager"] == "rollout"
    assert roles["MegatronTrainRayActor"] == "trainer"
    assert roles["SGLangEngine"] == "engine"


def test_a_healthy_run_has_neither_a_warning_nor_a_critical_finding(run, tmp_path):
    assert_healthy(run.folder, tmp_path)
