"""TRL's online trainers with a tiny model, a few prompts and short answers, on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trl
import trl.trainer.grpo_trainer as grpo
from datasets import Dataset
from tiny_model import build
from transformers import AutoTokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

#: Samples of a prompt.
GROUP = 4
QUESTIONS = [{"prompt": f"What is {number} + 1?"} for number in range(8)]
#: The same to a model that chats.
CHATS = [{"prompt": [{"role": "user", "content": "What is 1 + 2?"}]}] * 8
_KINDS = {"grpo": ("GRPOTrainer", "GRPOConfig"), "rloo": ("RLOOTrainer", "RLOOConfig")}


def online_trainer(kind: str, directory: Path, rewards: list[Any], **arguments: Any) -> Any:
    """A trainer that answers questions for one step; ``arguments`` are those of its configuration."""
    trainer, _ = _KINDS[kind]
    return getattr(trl, trainer)(
        model=str(build(directory / "model")),
        reward_funcs=rewards,
        train_dataset=Dataset.from_list(QUESTIONS),
        args=_configuration(kind, directory, **{"max_completion_length": 8, **arguments}),
    )


def tool_calling_trainer(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    called: Callable[[int], tuple[str, dict[str, Any]] | None],
    rows: list[dict[str, Any]],
    steps: int = 1,
    **given: Any,
) -> Any:
    """A GRPO trainer whose model is made to call tools: a random one never does.

    ``called`` is given the number of the completion and says which tool it calls with what, or None.
    """
    turns = iter(range(1000))

    def parse(tokenizer: Any, ids: Any, prefix: Any = None, tools: Any = None, **_: Any) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": tokenizer.decode(ids, skip_special_tokens=True)}
        call = called(next(turns))
        if call is not None:
            message["tool_calls"] = [{"type": "function", "function": {"name": call[0], "arguments": call[1]}}]
        return message

    monkeypatch.setattr(grpo, "parse_response", parse)
    model = str(build(directory / "model"))
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.response_schema = {"type": "object", "properties": {"role": {"const": "assistant"}}}
    # A turn is short; the completion is all turns and the results of tools.
    lengths: dict[str, Any] = {"max_completion_length": 512, "generation_kwargs": {"max_new_tokens": 8}}
    return grpo.GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=Dataset.from_list(rows),
        args=_configuration("grpo", directory, max_steps=steps, max_tool_calling_iterations=1, **lengths),
        **given,
    )


def _configuration(kind: str, directory: Path, **arguments: Any) -> Any:
    _, configuration = _KINDS[kind]
    settings = {
        "output_dir": str(directory / "out"),
        "per_device_train_batch_size": GROUP,
        "num_generations": GROUP,
        "max_steps": 1,
        "logging_steps": 1,
        "report_to": "none",
        "use_cpu": True,
        "save_strategy": "no",
        "bf16": False,
        "disable_tqdm": True,
    }
    return getattr(trl, configuration)(**{**settings, **arguments})
