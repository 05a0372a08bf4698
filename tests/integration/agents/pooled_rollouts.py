"""Rollouts whose work goes on in threads, pools and processes of all kinds; asks a model at $MODEL_SERVER."""

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys

import joblib
import urllib3

import otel_rl


def ask():
    # Its import takes a tenth of that of a client of models, and each process that is not forked pays for it.
    with urllib3.PoolManager() as client:
        question = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        answer = client.request("POST", f"{os.environ['MODEL_SERVER']}/chat/completions", json=question)
        assert answer.json()["choices"]


def work(score):
    ask()
    with otel_rl.tool("search"):
        pass
    otel_rl.reward("child", score)
    otel_rl.rollout_metric("hops", 1)


def judge(name):
    otel_rl.reward("judge", 0.5, rollout=name)


def pool(method):
    return concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method))


def rollouts():
    with pool("spawn") as judges:
        for method in ("fork", "spawn"):
            with otel_rl.rollout(f"own pool, {method}"):
                ask()
                with pool(method) as executor:
                    list(executor.map(work, (1, 2)))
            with otel_rl.rollout(f"process, {method}"):
                child = multiprocessing.get_context(method).Process(target=work, args=(4,))
                child.start()
                child.join()
            # Its worker starts inside of the first.
            with pool(method) as executor:
                for number in (1, 2):
                    with otel_rl.rollout(f"shared pool, {method}, {number}"):
                        list(executor.map(work, [number] * number))
                executor.submit(work, 100).result()
                judges.submit(judge, f"shared pool, {method}, 2").result()
            # The same for pools of multiprocessing.
            with multiprocessing.get_context(method).Pool(1) as workers:
                with otel_rl.rollout(f"map, {method}"):
                    workers.map(work, [1, 2])
                with otel_rl.rollout(f"apply, {method}"):
                    workers.apply(work, (3,))
                    workers.apply_async(work, kwds={"score": 4}).get()
                with otel_rl.rollout(f"imap, {method}"):
                    list(workers.imap_unordered(work, (5, 6)))
                workers.starmap(work, [(100,)])
                workers.close()
                workers.join()
        for number in (1, 2):
            with otel_rl.rollout(f"joblib, {number}"):
                # More than are submitted before the first is done; the workers stay for the next.
                joblib.Parallel(n_jobs=2, batch_size=1)(joblib.delayed(work)(1) for _ in range(6 * number))
        joblib.Parallel(n_jobs=2, batch_size=1)(joblib.delayed(work)(100) for _ in range(6))
        with otel_rl.rollout("subprocess"):
            subprocess.run([sys.executable, __file__, "work"], check=True)
        with otel_rl.rollout("os.fork"):
            ask()
            child = os.fork()
            if not child:
                otel_rl.reward("found", 2, turn="last")
                work(8)
                otel_rl.reward("progress", 1, turn="last")
                otel_rl.flush(5)
                os._exit(0)
            os.waitpid(child, 0)
        judges.submit(judge, "nobody").result()


if __name__ == "__main__":
    work(16) if sys.argv[1:] == ["work"] else rollouts()
