"""Tinker's cookbook, and a loop on its client, on a real server on the CPU: compared with the cookbook's own files.

`make test-systems` makes the environments and runs this: `tinker/env` has the client and the cookbook,
`tinker-server/env` the server, which is SkyRL's. `OTEL_RL_TINKER_SERVER` is the address of a server that runs already.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from otel_rl.store.reader import Log, Reader, Span, find_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SYSTEMS = Path(os.environ.get("OTEL_RL_SYSTEMS") or "-")
ENVIRONMENT = SYSTEMS / "tinker" / "env" / "bin"
SERVER = SYSTEMS / "tinker-server" / "env" / "bin"
PROGRAMS = Path(__file__).parent / "tinker"
#: More models than the tests train: the server keeps each for as long as it lives.
ADAPTERS = 16
COOKBOOK = "otel_rl.tinker_cookbook"
#: Timer of the cookbook -> phases whose time it is, as spans of our scope.
TIMERS = {
    "sampling": {"rl.sample"},
    "train_step": {"rl.train"},
    "save_checkpoint_async": {"rl.checkpoint"},
    "save_checkpoint_and_get_sampling_client": {"rl.sync", "rl.checkpoint"},
    "run_evaluations_parallel": {"rl.evaluate"},
    "get_batch": {"rl.data_wait"},
}
#: A timer and its phase may differ by so much: a share of it, or seconds.
NEAR_SHARE, NEAR_SECONDS = 0.01, 0.002
STEPS = 4

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ENVIRONMENT.is_dir(), reason="OTEL_RL_SYSTEMS names no folder with tinker/env"),
    pytest.mark.skipif(
        not SERVER.is_dir() and "OTEL_RL_TINKER_SERVER" not in os.environ, reason="it has no tinker-server/env"
    ),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """Address of a server; one that the test starts is stopped with all its processes."""
    given = os.environ.get("OTEL_RL_TINKER_SERVER")
    if given:
        yield given
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("server")
    log = folder / "log"
    # The server looks for uv there.
    uv = os.environ.get("UV") or shutil.which("uv")
    assert uv, "uv is not to be found: name it in UV"
    path = os.pathsep.join([str(SERVER), str(Path(uv).parent), os.environ["PATH"]])
    with log.open("w") as output:
        started = subprocess.Popen(
            _server_command(uv, folder, port),
            cwd=SYSTEMS / "models",
            env={**os.environ, "HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": "cpu", "PATH": path},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 600
        while not _answers(address):
            assert started.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < until, log.read_text()[-2000:]
            time.sleep(1)
        yield address
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        started.wait(60)


def _server_command(uv: str, folder: Path, port: int) -> list[str]:
    """SkyRL's server; it starts its engine by `uv run`, with the flags of the `uv run` that is its own parent."""
    options = {
        "base-model": "Qwen/Qwen3-8B",
        "backend": "jax",
        "backend-config": json.dumps({"max_lora_adapters": ADAPTERS, "max_lora_rank": 8}),
        "host": "127.0.0.1",
        "port": str(port),
        "checkpoints-base": str(folder / "checkpoints"),
        "database-url": f"sqlite:///{folder}/tinker.db",
    }
    command = [uv, "run", "--no-project", "--python", str(SERVER / "python"), "-m", "skyrl.tinker.api"]
    return command + [part for name, value in options.items() for part in (f"--{name}", value)]


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/api/v1/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


class Run(NamedTuple):
    """What a watched run has recorded, and what the program wrote itself."""

    spans: list[Span]
    logs: list[Log]
    folder: Path
    output: str
    data: Path

    def named(self, name: str, scope: str | None = None) -> list[Span]:
        return [span for span in self.spans if span.name == name and scope in (None, span.scope)]

    def written(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def bodies(self, event: str, scope: str) -> list[Log]:
        return [log for log in self.logs if log.event == event and log.scope == scope]


def run(folder: Path, server: str, program: Sequence[str], *, watched: bool) -> Run:
    command = [*([str(ENVIRONMENT / "opentelemetry-instrument")] if watched else []), str(ENVIRONMENT / "python")]
    file, *arguments = program
    environ = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "TINKER_API_KEY": "tml-dummy",
        "TINKER_BASE_URL": server,
        "OTEL_RL_DATA_DIR": str(folder / "data"),
        "OTEL_RL_RUN_ID": "run",
    }
    command += [str(PROGRAMS / file), str(folder / "log"), *arguments]
    done = subprocess.run(
        command, cwd=SYSTEMS / "models", env=environ, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    records = list(Reader(find_run(folder / "data")).records()) if watched else []
    spans = [record for record in records if isinstance(record, Span)]
    logs = [record for record in records if isinstance(record, Log)]
    return Run(spans, logs, folder / "log", done.stdout + done.stderr, folder / "data")


@pytest.fixture(scope="module")
def rl(tmp_path_factory, server) -> Run:
    return run(tmp_path_factory.mktemp("rl"), server, ("rl.py", str(STEPS)), watched=True)


@pytest.fixture(scope="module")
def sl(tmp_path_factory, server) -> Run:
    return run(tmp_path_factory.mktemp("sl"), server, ("sl.py", str(STEPS)), watched=True)


@pytest.fixture(scope="module")
def plain_loop(tmp_path_factory, server) -> Run:
    return run(tmp_path_factory.mktemp("plain"), server, ("plain.py", str(STEPS)), watched=True)


def counted(one: Run) -> list[Any]:
    return sorted(span.attributes["rl.loop.iteration"] for span in one.named("rl.rank.step"))


def assert_every_value_is_there(one: Run) -> None:
    """Each value of the cookbook's own file with its step, as it is, and no other."""
    recorded = {log.attributes["rl.loop.iteration"]: log.body for log in one.bodies("rl.step", COOKBOOK)}
    written = {line.pop("step"): line for line in one.written("metrics.jsonl")}
    assert recorded == written


def seconds_of(one: Run, names: set[str]) -> dict[int, float]:
    """Of the outermost phases of these kinds, by step; the stretches of a suspended one together."""
    steps: dict[int, float] = defaultdict(float)
    for span in one.spans:
        if span.scope == COOKBOOK and span.name in names and "rl.loop.iteration" in span.attributes:
            steps[span.attributes["rl.loop.iteration"]] += (span.end - span.start) / 1e9
    return dict(steps)


def assert_timers_agree(one: Run, *, has_windows: bool) -> None:
    timers: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for line in one.written("timing_spans.jsonl"):
        for span in line["spans"]:
            timers[span["name"]][line["step"]] += span["duration"]
    compared = 0
    for timer, phases in TIMERS.items():
        ours = seconds_of(one, phases)
        for step, seconds in timers.get(timer, {}).items():
            assert ours[step] == pytest.approx(seconds, rel=NEAR_SHARE, abs=NEAR_SECONDS), (timer, step)
            compared += 1
    if has_windows:
        totals = {line["step"]: line["time/total"] for line in one.written("metrics.jsonl")}
        for span in one.named("rl.rank.step"):
            number, seconds = span.attributes["rl.loop.iteration"], (span.end - span.start) / 1e9
            if number:
                assert seconds == pytest.approx(totals[number], rel=NEAR_SHARE, abs=NEAR_SECONDS)
            else:
                # What we import for the first step lies in our window, before the cookbook reads its clock: 0.1 s, and
                # on a busy machine more.
                assert seconds >= totals[number]
    assert compared >= STEPS


def findings(one: Run) -> list[Any]:
    command = [str(Path(sys.executable).with_name("otel-rl")), "report", "--json", str(one.data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [
        finding for finding in json.loads(done.stdout)["findings"] if finding["severity"] in ("warning", "critical")
    ]


def own_share(one: Run) -> float:
    """Our CPU time in the steps after the first one, by the CPU time of the process in these."""
    steps = [span.attributes for span in one.named("rl.rank.step") if span.attributes["rl.loop.iteration"]]
    return sum(of["rl.telemetry.cpu_time"] for of in steps) / sum(of["rl.loop.cpu_time"] for of in steps)


def test_steps_of_reinforcement_learning_have_the_numbers_of_the_cookbook(rl):
    assert counted(rl) == [line["step"] for line in rl.written("metrics.jsonl")] == list(range(STEPS))


def test_all_that_reinforcement_learning_logs_is_recorded_and_nothing_else(rl):
    assert_every_value_is_there(rl)


def test_phases_take_as_long_as_the_timers_of_the_cookbook(rl):
    assert_timers_agree(rl, has_windows=True)


def test_each_sample_is_a_row_with_its_reward_and_lengths(rl):
    rows = Counter()
    for log in rl.bodies("rl.trajectories", "otel_rl.api"):
        columns = [log.body[f"rl.rollout.{name}"] for name in ("reward", "input_tokens", "output_tokens")]
        evaluated = log.body.get("rl.rollout.evaluation") or [None] * len(columns[0])
        trained = log.body.get("rl.rollout.trained") or [None] * len(columns[0])
        rows.update(
            zip([log.attributes["rl.loop.iteration"]] * len(columns[0]), *columns, evaluated, trained, strict=True)
        )
    samples = Counter()
    for file in rl.folder.glob("iteration_*/*_rollout_summaries.jsonl"):
        for line in map(json.loads, file.read_text().splitlines()):
            of_turn = line["steps"][0]
            is_evaluation = True if line["split"] != "train" else None
            trained = None if is_evaluation else True
            key = (
                line["iteration"],
                line["total_reward"],
                of_turn["ob_len"],
                of_turn["ac_len"],
                is_evaluation,
                trained,
            )
            samples[key] += 1
    assert rows == samples
    assert sum(rows.values()) >= 12 * STEPS


def test_a_rollout_is_a_trace_of_its_own_that_is_linked_to_its_step(rl):
    steps = {(span.trace_id, span.span_id) for span in rl.named("rl.rank.step")}
    rollouts = rl.named("rl.rollout")
    assert rollouts
    assert all(not span.parent_id and set(span.links) & steps for span in rollouts)
    calls = [span for span in rl.spans if span.name.startswith("text_completion ")]
    assert {span.parent_id for span in calls} == {span.span_id for span in rollouts}
    assert all(span.attributes["gen_ai.usage.output_tokens"] > 0 for span in calls)


@pytest.mark.parametrize("name", ["rl", "sl", "plain_loop"])
def test_requests_of_the_client_lie_below_what_they_are_for(name, request):
    one = request.getfixturevalue(name)
    requests = [span for span in one.spans if span.scope == "pyqwest"]
    assert len(requests) > 4 * STEPS
    # The client's own telemetry is sent by a thread that nobody calls.
    without = [span for span in requests if not span.parent_id]
    assert [span for span in without if not str(span.attributes.get("url.full")).endswith("/telemetry")] == []


@pytest.mark.parametrize("name", ["rl", "sl", "plain_loop"])
def test_a_healthy_run_has_neither_warnings_nor_critical_findings(name, request):
    assert findings(request.getfixturevalue(name)) == []


def test_new_weights_reach_the_sampler_by_a_sync_with_their_version(rl):
    synced = [span for span in rl.named("rl.sync", "otel_rl.tinker") if "rl.loop.iteration" in span.attributes]
    assert [int(span.attributes["rl.policy.version"]) for span in synced] == list(range(1, STEPS + 1))
    answered = {
        (log.attributes["rl.loop.iteration"], version)
        for log in rl.bodies("rl.trajectories", "otel_rl.api")
        for version in log.body["rl.rollout.policy_version.max"]
    }
    assert answered == {(step, step) for step in range(STEPS)}


def test_steps_of_supervised_learning_have_the_numbers_of_the_cookbook(sl):
    assert counted(sl) == [line["step"] for line in sl.written("metrics.jsonl")] == list(range(STEPS))


def test_all_that_supervised_learning_logs_is_recorded_and_nothing_else(sl):
    assert_every_value_is_there(sl)


def test_phases_of_supervised_learning_take_as_long_as_its_timers(sl):
    names = Counter(span.name for span in sl.spans if span.scope == COOKBOOK)
    assert names["rl.train"] == STEPS
    assert names["rl.evaluate"]


def test_updates_of_a_loop_on_the_client_are_its_steps(plain_loop):
    made = re.search(r"updates: (\d+)", plain_loop.output)
    assert made is not None
    assert counted(plain_loop) == list(range(1, int(made[1]) + 1))
    names = Counter(span.name for span in plain_loop.spans if span.scope == "otel_rl.tinker")
    for phase in ("rl.sample", "rl.backward", "rl.optimizer", "rl.sync"):
        assert names[phase] == STEPS, phase


def test_the_program_is_the_same_without_us(tmp_path, server, rl):
    plain = run(tmp_path, server, ("rl.py", "1"), watched=False)
    assert plain.written("metrics.jsonl")[0].keys() == rl.written("metrics.jsonl")[0].keys()
    print(f"own CPU in the steps after the first: {own_share(rl):.1%} of the process's")
