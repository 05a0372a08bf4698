"""Judges and tools whose work goes on in processes of all kinds; asks a model at $MODEL_SERVER."""

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys

import urllib3

import otel_rl


def ask(_=0):
    # Its import takes a tenth of that of a client of models, and each process that is not forked pays for it.
    with urllib3.PoolManager() as client:
        question = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        answer = client.request("POST", f"{os.environ['MODEL_SERVER']}/chat/completions", json=question)
        assert answer.json()["choices"]


def in_subprocess(what="work"):
    subprocess.run([sys.executable, __file__, what], check=True)


def in_fork(work=ask):
    child = os.fork()
    if not child:
        work()
        otel_rl.flush(5)
        os._exit(0)
    os.waitpid(child, 0)


def in_process(method):
    child = multiprocessing.get_context(method).Process(target=ask)
    child.start()
    child.join()


def in_executor(method):
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as executor:
        list(executor.map(ask, range(2)))


def in_pool(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        pool.map(ask, range(2))
        pool.close()
        pool.join()


def judge_in_child():
    with otel_rl.reward_function("inner"):
        ask()


def rollout_in_child():
    with otel_rl.rollout("a rollout in a child of a tool"):
        ask()


#: Name -> a way to ask in other processes.
WAYS = {
    "os.fork": in_fork,
    "subprocess": in_subprocess,
    "subprocess of a fork": lambda: in_fork(in_subprocess),
    "fork of a subprocess": lambda: in_subprocess("fork"),
    **{
        f"{way.__name__.removeprefix('in_')}, {method}": lambda way=way, method=method: way(method)
        for way in (in_process, in_executor, in_pool)
        for method in ("fork", "spawn")
    },
}
#: Those that are tried in a tool, too.
OF_TOOLS = ("os.fork", "subprocess of a fork", "process, spawn", "executor, fork")


def rollouts():
    for name, work in WAYS.items():
        with otel_rl.rollout(f"judge, {name}"):
            ask()
            with otel_rl.reward_function("judge"):
                work()
        if name in OF_TOOLS:
            with otel_rl.rollout(f"tool, {name}"):
                ask()
                with otel_rl.tool("solve"):
                    work()
    for method in ("fork", "spawn"):
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as executor:
            # Its worker starts inside of the judge.
            with otel_rl.rollout(f"one worker, {method}"):
                with otel_rl.reward_function("judge"):
                    executor.submit(ask).result()
                executor.submit(ask).result()
                with otel_rl.tool("solve"):
                    executor.submit(ask).result()
            with otel_rl.rollout(f"the same worker, {method}"):
                executor.submit(ask).result()
    with otel_rl.rollout("a judge in a child of a tool"), otel_rl.tool("solve"):
        in_fork(judge_in_child)
    with otel_rl.rollout("its parent"), otel_rl.tool("solve"):
        in_fork(rollout_in_child)


if __name__ == "__main__":
    {"work": ask, "fork": in_fork}[sys.argv[1]]() if sys.argv[1:] else rollouts()
