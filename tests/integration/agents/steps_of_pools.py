"""Rollouts that begin in the workers of pools of all kinds: each id says the step that it belongs to."""

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import joblib

import otel_rl

STEPS = (1, 2, 3)
FORK, SPAWN = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")


def episode(name):
    with otel_rl.rollout(name):
        otel_rl.reward("x", 0.5)


def nested(name):
    with ProcessPoolExecutor(1, mp_context=FORK) as inner:
        inner.submit(episode, name).result()


def in_a_thread(name):
    thread = threading.Thread(target=episode, args=(name,))
    thread.start()
    thread.join()


def continued(name):
    episode(f"{name}, inner")


def with_executor(executor, kind, names):
    for future in [executor.submit(episode, f"{kind}, {name}, {number}") for name in names for number in range(2)]:
        future.result()


def in_one_step(pools, step):
    for kind, pool in pools.items():
        if isinstance(pool, ProcessPoolExecutor):
            with_executor(pool, kind, [step])
        else:
            pool.map(episode, [f"{kind}, {step}, map"])
            pool.apply_async(episode, (f"{kind}, {step}, apply",)).get()
            list(pool.imap_unordered(episode, [f"{kind}, {step}, imap"]))
    calls = (joblib.delayed(episode)(f"joblib, {step}, {number}") for number in range(6))
    joblib.Parallel(n_jobs=2, batch_size=1)(calls)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(with_executor, pools["executor, fork"], "executor, from a thread", [step]).result()
    pools["executor, fork"].submit(nested, f"nested, {step}").result()
    pools["executor, fork"].submit(in_a_thread, f"thread of a worker, {step}").result()
    with otel_rl.rollout(f"outer, {step}"):
        pools["executor, spawn"].submit(continued, f"inside a rollout, {step}").result()


def train(pools):
    for step in STEPS:
        with otel_rl.step(step, loop="main"):
            with otel_rl.phase("sample"):
                if step == STEPS[0]:
                    # Its worker is forked inside of the step, and so is that of the executors.
                    pools["pool, forked in a step"] = FORK.Pool(1)
                in_one_step(pools, step)
            with otel_rl.phase("evaluate"):
                with_executor(pools["executor, fork"], "evaluation", [step])
                calls = (joblib.delayed(episode)(f"evaluation, {step}, joblib {number}") for number in range(6))
                joblib.Parallel(n_jobs=2, batch_size=1)(calls)
            with otel_rl.phase("sample"):
                with_executor(pools["executor, fork"], "after an evaluation", [step])


if __name__ == "__main__":
    pools = {
        "executor, fork": ProcessPoolExecutor(1, mp_context=FORK),
        "executor, spawn": ProcessPoolExecutor(1, mp_context=SPAWN),
        "pool, fork": FORK.Pool(1),
        "pool, spawn": SPAWN.Pool(1),
    }
    queue = FORK.SimpleQueue()
    own = FORK.Process(target=lambda: [episode(name) for name in iter(queue.get, None)])
    own.start()
    train(pools)
    with otel_rl.step(9, loop="main"):
        queue.put("a process of its own, None")
        queue.put(None)
        own.join()
    for kind, pool in pools.items():
        if isinstance(pool, ProcessPoolExecutor):
            with_executor(pool, f"after the steps: {kind}", [None])
            pool.shutdown()
        else:
            pool.map(episode, [f"after the steps: {kind}, None, map"])
            pool.close()
            pool.join()
