"""Rollouts with vLLM's `AsyncLLM`, whose engine is a process of its own; prints what was generated.

    python async_program.py MODEL [ENDPOINT]

With an endpoint vLLM exports its own spans there.
"""

import asyncio
import json
import multiprocessing
import sys

from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

import otel_rl

PROMPT = {"prompt_token_ids": [3, 4, 5]}


def sampling(kind=RequestOutputKind.FINAL_ONLY, **values):
    return SamplingParams(**{"max_tokens": 6, "seed": 3, "output_kind": kind, **values})


async def rollout(engine, name, parameters):
    """All outputs of one request, as the program sees them."""
    with otel_rl.rollout(name):
        outputs = [output async for output in engine.generate(PROMPT, parameters, request_id=name)]
    return [[list(one.token_ids) for one in output.outputs] for output in outputs]


async def leave_early(engine):
    with otel_rl.rollout("left"):
        outputs = engine.generate(PROMPT, sampling(RequestOutputKind.DELTA, max_tokens=200), request_id="left")
        async for _ in outputs:
            break
        await outputs.aclose()


async def cancel(engine):
    async def wait(begun):
        with otel_rl.rollout("cancelled"):
            parameters = sampling(RequestOutputKind.DELTA, max_tokens=200)
            async for _ in engine.generate(PROMPT, parameters, request_id="cancelled"):
                begun.set()

    begun = asyncio.Event()
    task = asyncio.create_task(wait(begun))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def work(engine):
    parameters = {
        "final": sampling(),
        "deltas": sampling(RequestOutputKind.DELTA),
        "cumulative": sampling(RequestOutputKind.CUMULATIVE),
        "several": sampling(n=2),
    }
    for name, one in parameters.items():
        # Sequential: how many outputs a concurrent request gives depends on the machine.
        yield name, await rollout(engine, name, one)
    concurrent = [f"concurrent-{number}" for number in range(4)]
    found = await asyncio.gather(*(rollout(engine, name, sampling()) for name in concurrent))
    for each in zip(concurrent, found, strict=True):
        yield each
    await leave_early(engine)
    await cancel(engine)
    await engine.pause_generation(mode="wait")
    await engine.reset_prefix_cache()
    await engine.update_weight_version("v1")
    await engine.resume_generation()
    await engine.sleep(level=1)
    await engine.wake_up()
    yield "after", await rollout(engine, "after", sampling())
    yield "health", await engine.collective_rpc("check_health")


async def main(model: str, endpoint: str | None = None) -> None:
    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=model,
            served_model_name="tiny",
            dtype="float32",
            enforce_eager=True,
            max_model_len=256,
            max_num_seqs=8,
            seed=0,
            otlp_traces_endpoint=endpoint,
        )
    )
    never_asked = engine.generate(PROMPT, sampling(), request_id="never")
    generated = {name: outputs async for name, outputs in work(engine)}
    await never_asked.aclose()
    left = engine.output_processor.get_num_unfinished_requests()
    processes = len(multiprocessing.active_children())
    engine.shutdown()
    print(json.dumps({"generated": generated, "unfinished": left, "processes": processes}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
