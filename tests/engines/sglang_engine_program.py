"""Rollouts with SGLang's `Engine` in the program, whose scheduler is a process of its own; prints what was generated.

    python sglang_engine_program.py MODEL

Streams are followed by `async_generate` and by `generate`; one is left early. Then the weights of MODEL come again.
"""

import json
import sys

import sglang_on_cpu  # noqa: F401 - replaces a module that wants CUDA, in the spawned processes too

import otel_rl

GREEDY = {"max_new_tokens": 4, "temperature": 0, "ignore_eos": True}
#: As the flags of the tests' server.
ON_CPU = {
    "device": "cpu",
    "dtype": "float32",
    "max_total_tokens": 4096,
    "attention_backend": "torch_native",
    "sampling_backend": "pytorch",
    "grammar_backend": "none",
    "disable_overlap_schedule": True,
    "disable_radix_cache": True,
    "skip_server_warmup": True,
    "enable_metrics": True,
    "log_level": "warning",
}


def generated(engine):
    with otel_rl.rollout("generate"):
        return engine.generate("one two", GREEDY)["text"]


def batch(engine):
    with otel_rl.rollout("batch"):
        return [one["text"] for one in engine.generate(["one two", "three"], {**GREEDY, "n": 2})]


def streamed(engine):
    with otel_rl.rollout("stream"):
        return [chunk["text"] for chunk in engine.generate("one two", GREEDY, stream=True)][-1]


async def followed(engine):
    with otel_rl.rollout("async stream"):
        return [chunk["text"] async for chunk in await engine.async_generate("one two", GREEDY, stream=True)][-1]


async def left(engine):
    with otel_rl.rollout("left"):
        chunks = await engine.async_generate("one two", {**GREEDY, "max_new_tokens": 900}, stream=True)
        async for _ in chunks:
            break
        await chunks.aclose()


def streamed_batch(engine):
    with otel_rl.rollout("stream of a batch"):
        for _ in engine.generate(["one two", "three"], GREEDY, stream=True):
            pass


def refused(engine):
    with otel_rl.rollout("refused"):
        try:
            engine.generate("one two " * 5000, GREEDY)
        except ValueError as error:
            return type(error).__name__


def main(model):
    import sglang

    engine = sglang.Engine(model_path=model, **ON_CPU)
    try:
        with otel_rl.step(iteration=1):
            answers = {"text": [generated(engine), streamed(engine)], "batch": batch(engine)}
            answers["text"].append(engine.loop.run_until_complete(followed(engine)))
            engine.loop.run_until_complete(left(engine))
            streamed_batch(engine)
            answers["refused"] = refused(engine)
            with otel_rl.phase("sync"):
                answers["updated"] = engine.update_weights_from_disk(model)[0]
        with otel_rl.step(iteration=2):
            answers["again"] = generated(engine)
    finally:
        engine.shutdown()
    print(json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
