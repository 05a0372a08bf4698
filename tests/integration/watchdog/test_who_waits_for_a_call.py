"""Real programs in which a tool, a service or an engine hangs: who waits for it is told while it hangs, and its end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from integration.live.live_command import awaited

from otel_rl.live.liveness import Liveness
from otel_rl.ranks.postmortem import examine, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.live.standing import LiveFinding
    from otel_rl.ranks.postmortem import Postmortem

SCRIPTS = Path(sys.executable).parent
TIMEOUT = 300
# On one line, so that each look at the stack finds the same.
WAITS = """
import pathlib, time

def wait_for_go():
    while not pathlib.Path("go").exists(): time.sleep(0.02)
"""
#: The first tool of the program hangs in one of several rollouts, while the step is open.
ASYNC = """
import asyncio, otel_rl
from langchain_core.tools import tool
import pathlib

@tool
async def run_sandbox(code: str) -> str:
    "Run code."
    while not pathlib.Path("go").exists(): await asyncio.sleep(0.02)
    return "done"

async def rollout(number):
    with otel_rl.rollout(f"r-{number}"):
        if number == 1:
            await run_sandbox.ainvoke({"code": "1 + 1"})

async def main():
    with otel_rl.step(1), otel_rl.phase("sample"):
        await asyncio.gather(*[rollout(number) for number in range(3)])

asyncio.run(main())
"""
#: The tool runs in a worker of a pool, which has no step.
POOL = """
import multiprocessing, sys, otel_rl
from concurrent.futures import ProcessPoolExecutor
from waits import wait_for_go

@otel_rl.tool("run_sandbox")
def run_sandbox(code):
    wait_for_go()

if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(sys.argv[1]))
    with otel_rl.step(1), otel_rl.phase("sample"), otel_rl.rollout("r-1"):
        pool.submit(run_sandbox, "1 + 1").result()
    pool.shutdown()
"""
#: An agent that trains nothing, and so has no ring.
AGENT = """
import otel_rl
from waits import wait_for_go

with otel_rl.rollout("r-1"), otel_rl.tool("run_sandbox"):
    wait_for_go()
"""
#: It trains, and makes a rollout ahead in a thread.
AHEAD = """
import threading, otel_rl
from waits import wait_for_go

def ahead():
    with otel_rl.rollout("r-40"), otel_rl.tool("run_sandbox"):
        wait_for_go()

with otel_rl.step(1), otel_rl.phase("train"):
    thread = threading.Thread(target=ahead)
    thread.start()
    wait_for_go()
    thread.join()
"""
#: An engine that answers one request, when it may; with our middleware where it is asked for.
ENGINE = """
import json, sys
from wsgiref.simple_server import make_server, WSGIRequestHandler
import otel_rl.services
from waits import wait_for_go

class Handler(WSGIRequestHandler):
    def log_message(self, *_): ...

def compute(environ, start_response):
    environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    wait_for_go()
    message = {"role": "assistant", "content": "done"}
    answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "m",
              "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]

app = otel_rl.services.WSGIMiddleware(compute) if sys.argv[1] == "middleware" else compute
server = make_server("127.0.0.1", 0, app, handler_class=Handler)
print(server.server_port, flush=True)
server.handle_request()
"""
#: Its client is a program that trains.
CLIENT = """
import sys, otel_rl, openai

client = openai.OpenAI(base_url=f"http://127.0.0.1:{sys.argv[1]}/v1", api_key="none")
with otel_rl.step(1), otel_rl.phase("sample"), otel_rl.rollout("r-1"):
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "1 + 1"}])
"""


@contextmanager
def _program(folder: Path, name: str, program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "waits.py").write_text(WAITS)
    (folder / f"{name}.py").write_text(program)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    ours = {"RUN_ID": "run", "RING_DIR": str(folder), "RING": "on", "HANG_SECONDS": "0.3", "CHILDREN": "all"}
    process = subprocess.Popen(
        [SCRIPTS / "opentelemetry-instrument", sys.executable, f"{name}.py", *arguments],
        cwd=folder,
        env={**environ, "OTEL_RL_QUIET": "true", **{f"OTEL_RL_{key}": value for key, value in ours.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _postmortem(folder: Path) -> Postmortem:
    return examine(folder / "otel-rl" / "run", folder)


def _chain(folder: Path, process: subprocess.Popen[Any], calls: int = 1) -> str:
    """What the postmortem says of who waits for whom, once the chain has so many calls and its end hangs."""

    def found() -> str | None:
        # The folder of a process is there before its first records.
        if not list((folder / "otel-rl" / "run").glob("*/*.jsonl")) or not list(folder.glob("*.waits")):
            return None
        postmortem = _postmortem(folder)
        links = [chain.links for chain in postmortem.chains]
        is_there = links and len(links[0]) == calls and any(link.call.hangs for link in links[0])
        return text.chains(postmortem)[0] if is_there else None

    return str(awaited(found, process))


def _finding(folder: Path, process: subprocess.Popen[Any]) -> LiveFinding:
    """What the live page says."""
    liveness = Liveness(folder / "otel-rl" / "run", "run", folder, 0.3)

    def found() -> LiveFinding | None:
        return next((one for one in liveness.look().findings if one.code == "hanging_call"), None)

    finding: LiveFinding = awaited(found, process)
    return finding


def _without_times(sentence: str) -> str:
    return re.sub(r"\d\d:\d\d:\d\d UTC \(\d+ s\)", "TIME", sentence)


def _end(folder: Path, process: subprocess.Popen[str]) -> str:
    """Let what hangs go on, and the program end; what it has written on standard error."""
    (folder / "go").touch()
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err
    return err


def _events(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for file in sorted(folder.glob("otel-rl/run/*/logs-*.jsonl")):
        for line in file.read_text().splitlines():
            for resource in json.loads(line)["resourceLogs"]:
                records = [record for scope in resource["scopeLogs"] for record in scope["logRecords"]]
                found += [
                    (
                        record["eventName"],
                        {one["key"]: next(iter(one["value"].values())) for one in record["attributes"]},
                    )
                    for record in records
                    if record.get("eventName", "").startswith("rl.call.")
                ]
    return found


def test_the_first_tool_that_hangs_in_a_rollout_of_asyncio_is_told_while_the_step_is_open(tmp_path: Path) -> None:
    with _program(tmp_path, "train", ASYNC) as program:
        sentence, finding = _chain(tmp_path, program), _finding(tmp_path, program)
        err = _end(tmp_path, program)
    assert _without_times(sentence) == (
        f"process {_pid(sentence)} waits in `sample` of step 1 for rollout r-1, which waits in tool `run_sandbox`,"
        " in run_sandbox (train.py:9), since TIME"
    )
    assert (finding.title, finding.place, finding.step) == ("Tool run_sandbox hangs", "step 1 (sample)", 1)
    assert "for rollout r-1, which waits in tool `run_sandbox`" in finding.text
    told, over = err.splitlines()
    first = r"tool run_sandbox has not returned for \d+ s \(the first call of it\), in rollout r-1, in run_sandbox"
    assert re.search(first, told), told
    assert "tool run_sandbox returned after " in over
    (begin, values), (end, ended) = _events(tmp_path)
    assert (begin, end, ended["rl.call.ending"]) == ("rl.call.hang", "rl.call.hang.end", "returned")
    assert values["rl.rollout.id"] == ended["rl.rollout.id"] == "r-1"
    assert (values["rl.phase"], values["code.function.name"]) == ("sample", "run_sandbox")
    # It is over: nothing is left of it, on the page nor beside the rings.
    assert Liveness(tmp_path / "otel-rl" / "run", "run", tmp_path, 0.3).look().findings == []
    assert list(tmp_path.glob("*.waits")) == []


def test_a_rank_that_trains_does_not_wait_for_a_rollout_that_is_made_ahead(tmp_path: Path) -> None:
    with _program(tmp_path, "train", AHEAD) as program:
        sentence, finding = _chain(tmp_path, program), _finding(tmp_path, program)
        _end(tmp_path, program)
    assert _without_times(sentence) == (
        f"process {_pid(sentence)} is in `train` of step 1; meanwhile rollout r-40 waits in tool `run_sandbox`,"
        " in waits.wait_for_go (waits.py:5), since TIME"
    )
    assert (finding.title, finding.severity.value) == ("Tool run_sandbox hangs", "warning")


def test_of_an_agent_without_steps_its_process_and_its_tool_are_named(tmp_path: Path) -> None:
    with _program(tmp_path, "agent", AGENT) as program:
        sentence, finding = _chain(tmp_path, program), _finding(tmp_path, program)
        shown = text.as_text(_postmortem(tmp_path))
        _end(tmp_path, program)
    assert _without_times(sentence) == (
        f"process {_pid(sentence)}, in rollout r-1, waits in tool `run_sandbox`, in waits.wait_for_go (waits.py:5),"
        " since TIME"
    )
    assert (finding.title, finding.severity.value) == ("Tool run_sandbox hangs", "warning")
    assert [line.partition(";")[0] for line in shown.splitlines()[:1]] == ["run run"]


def _pid(sentence: str) -> str:
    return sentence.split()[1].rstrip(",")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_tool_that_hangs_in_a_worker_of_a_pool_is_what_the_trainer_waits_for(tmp_path: Path, method: str) -> None:
    with _program(tmp_path, "train", POOL, method) as program:
        sentence, finding = _chain(tmp_path, program), _finding(tmp_path, program)
        _end(tmp_path, program)
    worker = re.search(r"which in process (\d+) waits", sentence)
    assert worker is not None, sentence
    assert worker[1] != _pid(sentence)
    assert _without_times(sentence) == (
        f"process {_pid(sentence)} waits in `sample` of step 1 for rollout r-1, which in process {worker[1]} waits in"
        " tool `run_sandbox`, in waits.wait_for_go (waits.py:5), since TIME"
    )
    assert (finding.title, finding.place) == ("Tool run_sandbox hangs", "step 1 (sample)")
    assert [name for name, _ in _events(tmp_path)] == ["rl.call.hang", "rl.call.hang.end"]


def test_the_request_that_an_engine_hangs_in_is_the_end_of_the_chain(tmp_path: Path) -> None:
    with _program(tmp_path, "engine", ENGINE, "middleware") as engine:
        port, pid = _port(engine), engine.pid
        with _program(tmp_path, "train", CLIENT, port) as program:
            sentence = _chain(tmp_path, program, calls=2)
            _end(tmp_path, program)
        engine.communicate(timeout=TIMEOUT)
    assert _without_times(sentence) == (
        f"process {_pid(sentence)} waits in `sample` of step 1 for rollout r-1, which waits for model call `chat m` at"
        f" 127.0.0.1:{port}, where process {pid} answers `POST /v1/chat/completions`,"
        " in waits.wait_for_go (waits.py:5), since TIME"
    )


def _port(engine: subprocess.Popen[str]) -> str:
    assert engine.stdout is not None
    return engine.stdout.readline().strip()


def test_of_an_engine_without_middleware_the_process_that_listens_is_named_and_a_kill_leaves_the_wait(
    tmp_path: Path,
) -> None:
    with _program(tmp_path, "engine", ENGINE, "plain") as engine:
        port, pid = _port(engine), engine.pid
        os.kill(pid, signal.SIGSTOP)
        with _program(tmp_path, "train", CLIENT, port) as program:
            sentence = _chain(tmp_path, program)
            program.kill()
            program.wait()
        (after,) = text.chains(_postmortem(tmp_path))
        os.kill(pid, signal.SIGCONT)
    trainer = _pid(sentence)
    waits = "process {0} {1} in `sample` of step 1 for rollout r-1, which {1} for model call `chat m` at 127.0.0.1:{2}"
    assert sentence.startswith(waits.format(trainer, "waits", port))
    assert sentence.endswith(f"; there listens process {pid} (python, stopped by a signal)"), sentence
    assert after.startswith(waits.format(trainer, "had waited", port))
    assert after.endswith(f"; process {trainer} is gone")
