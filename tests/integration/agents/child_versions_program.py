"""A loop that samples in child processes, from two engines; syncs leave one of them out from step 5 on."""

import concurrent.futures
import multiprocessing

import urllib3
from support.fake_openai import FakeOpenAI

import otel_rl

STEPS, LEFT_OUT_AFTER = 10, 4


def ask(url):
    # A client of models takes ten times as long to make.
    with urllib3.PoolManager() as client:
        question = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        answer = client.request("POST", f"{url}/chat/completions", json=question)
        assert answer.json()["choices"]


def in_process(url):
    child = multiprocessing.get_context("fork").Process(target=ask, args=(url,))
    child.start()
    child.join()


def main():
    with (
        FakeOpenAI() as current,
        FakeOpenAI() as left_out,
        concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor,
    ):
        for number in range(1, STEPS + 1):
            current.extra = {"metadata": {"weight_version": str(number)}}
            left_out.extra = {"metadata": {"weight_version": str(min(number, LEFT_OUT_AFTER))}}
            with otel_rl.step(number):
                for name, server in (("current", current), ("left out", left_out)):
                    with otel_rl.rollout(f"process, {name}, {number}", policy_version=number):
                        in_process(server.base_url)
                    with otel_rl.rollout(f"worker, {name}, {number}", policy_version=number):
                        executor.submit(ask, server.base_url).result()
        with otel_rl.rollout("one child of each", policy_version=STEPS):
            in_process(current.base_url)
            in_process(left_out.base_url)
        with otel_rl.rollout("here"):
            ask(current.base_url)


if __name__ == "__main__":
    main()
