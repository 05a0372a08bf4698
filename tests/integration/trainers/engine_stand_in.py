"""Stands for vLLM, which is not installed: TRL's own ``VLLMGeneration`` with a client, or an engine, of ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from trl.generation import vllm_generation

if TYPE_CHECKING:
    from collections.abc import Callable

COMPLETION = [5, 6, 7, 2]


class Client:
    """The server's client, as far as TRL calls it."""

    def __init__(self, work: Callable[[str], None]) -> None:
        self._work = work

    def update_named_params(self, _: Any, parameters: Any) -> None:
        for _ in parameters:
            pass
        self._work("sync")

    def reset_prefix_cache(self) -> None:
        pass

    def generate(self, prompts: list[list[int]], n: int, **_: Any) -> dict[str, Any]:
        self._work("sample")
        completions = [COMPLETION for _ in prompts for _ in range(n)]
        logprobs = [[[-1.0] for _ in completion] for completion in completions]
        return {"prompt_ids": prompts, "completion_ids": completions, "logprobs": logprobs}


class Engine:
    """An engine in the process of the trainer."""

    def __init__(self, work: Callable[[str], None]) -> None:
        self._work = work
        model = SimpleNamespace(load_weights=lambda _: None)
        runner = SimpleNamespace(model_runner=SimpleNamespace(model=model))
        self.llm_engine = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=runner))

    def wake_up(self, tags: list[str]) -> None:
        if "weights" in tags:
            self._work("sync")

    def sleep(self, level: int) -> None:
        pass

    def reset_prefix_cache(self) -> None:
        pass

    def generate(self, prompts: list[dict[str, Any]], **_: Any) -> list[Any]:
        self._work("sample")
        logprobs = [{token: SimpleNamespace(logprob=-1.0, rank=1)} for token in COMPLETION]
        output = SimpleNamespace(token_ids=COMPLETION, logprobs=logprobs)
        return [SimpleNamespace(prompt_token_ids=one["prompt_token_ids"], outputs=[output]) for one in prompts]


def use(trainer: Any, mode: str, work: Callable[[str], None], monkeypatch: Any) -> None:
    """Make ``trainer`` generate as with ``use_vllm=True`` in this mode."""
    generation = object.__new__(vllm_generation.VLLMGeneration)
    vars(generation).update(
        mode=mode,
        model=trainer.model,
        accelerator=trainer.accelerator,
        enable_sleep_mode=mode == "colocate",
        tensor_parallel_size=1,
        structured_outputs_regex=None,
        generation_kwargs={},
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        min_p=None,
        repetition_penalty=1.0,
        max_completion_length=8,
        logprobs=0,
        _iter_named_params=trainer.model.named_parameters,
        _weight_metadata=None,
        _llm_weights_sleeping=True,
        vllm_client=Client(work),
        llm=Engine(work),
    )
    monkeypatch.setattr(vllm_generation, "SamplingParams", SimpleNamespace, raising=False)
    trainer.use_vllm = True
    trainer.vllm_generation = generation
    trainer._last_loaded_step = -1
