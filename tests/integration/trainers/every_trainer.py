"""Every trainer class of TRL, and how to build a tiny one that trains on a CPU."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

import rollout_stand_in
import transformers
import vllm_stand_in
from datasets import Dataset
from tiny_model import build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PREFERENCES = [{"prompt": "What is 1?", "chosen": " one", "rejected": " two"}] * 16
PROMPTS = [{"prompt": f"What is {number} + 1?"} for number in range(16)]
MESSAGES = [
    {"messages": [{"role": "user", "content": f"What is {number}?"}, {"role": "assistant", "content": "one"}]}
    for number in range(16)
]

#: Trainers that are not built here, and why.
_MOVED = "its class only warns that it has moved and is the stable one otherwise, which is built"
SKIPPED = {
    "trl.experimental.distillation.DistillationTrainer": _MOVED,
    "trl.experimental.kto.KTOTrainer": _MOVED,
}


def trainer_classes() -> dict[str, type]:
    """All trainer classes of the installed TRL by qualified name, those of the bases with an underscore left out."""
    found: dict[str, type] = {}
    for name in _modules():
        try:
            module = importlib.import_module(name)
        except (ImportError, NameError):
            continue
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, transformers.Trainer) and kind.__module__ == name:
                found[f"{name}.{kind.__qualname__}"] = kind
    return {name: kind for name, kind in sorted(found.items()) if not kind.__name__.startswith("_")}


def _modules() -> Iterator[str]:
    for package in ("trl.trainer", "trl.experimental"):
        try:
            root = importlib.import_module(package)
        except ImportError:
            continue
        # A package may fail without one that is not installed: openenv of TRL 0.27 names classes of vLLM unasked.
        for module in pkgutil.walk_packages(root.__path__, f"{package}.", onerror=lambda _: None):
            if module.name.endswith("_trainer") or (module.ispkg and package == "trl.experimental"):
                yield module.name


def work(kind: str) -> None:
    """Replaced by tests that count work."""


def _work(kind: str) -> None:
    """What stands in for a worker or a server outlives a test: it asks for the function of the time."""
    work(kind)


def reward(completions: list[Any], **_: Any) -> list[float]:
    """Scores that differ, so that the loss has a gradient."""
    work("reward")
    return [float(position % 2) for position, _ in enumerate(completions)]


class Recipe:
    """What one trainer class is built with beyond what all have in common."""

    def __init__(self, data: list[dict[str, Any]], arguments: dict[str, Any] | None = None, **options: Any) -> None:
        self.data = data
        #: Arguments of the configuration; a function is called for its value.
        self.arguments = arguments or {}
        #: Arguments of the trainer; a function gets the folder of the model.
        self.options = options


_SAMPLES = {"per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": 8}
_CHAT = [{"prompt": [{"role": "user", "content": f"What is {number} + 1?"}]} for number in range(16)]
_CHAT_PAIRS = [{**row, "completion": [{"role": "assistant", "content": "two"}]} for row in _CHAT]
_UNPAIRED = [{"prompt": "What is 1?", "completion": " one", "label": bool(n % 2)} for n in range(16)]
_TRIPLES = [{**row, "reference": " one"} for row in PREFERENCES]
_EXPLAINED = [{**row, "privileged_context": "It is a sum."} for row in PROMPTS]


def _teacher(model: str) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(model)


def _reward_model(model: str) -> Any:
    return transformers.AutoModelForSequenceClassification.from_pretrained(model, num_labels=1)


RECIPES: dict[str, Recipe] = {
    "A2POTrainer": Recipe(
        PROMPTS,
        {"max_completion_length": 8, "num_value_samples": 2, "filter_all_incorrect": False},
        reward_funcs=reward,
    ),
    "AsyncDistillationTrainer": Recipe(
        _CHAT,
        # Instead of FlashAttention 3.
        {"token_budget": 0, "model_init_kwargs": {"attn_implementation": "eager"}},
        rollout_worker=lambda _: rollout_stand_in.distillation_worker(_work),
        weight_transfer=lambda _: rollout_stand_in.Receiver(_work),
    ),
    "AsyncGRPOTrainer": Recipe(
        _CHAT,
        {"token_budget": 0, "num_generations": 4},
        rollout_worker=lambda _: rollout_stand_in.grpo_worker(_work),
        weight_transfer=lambda _: rollout_stand_in.Receiver(_work),
    ),
    "CPOTrainer": Recipe(PREFERENCES),
    "DPOTrainer": Recipe(PREFERENCES),
    "DistillationTrainer": Recipe(_CHAT, {"max_completion_length": 8}, teacher_model=_teacher),
    "GKDTrainer": Recipe(MESSAGES, {"max_new_tokens": 8, "lmbda": 1.0}, teacher_model=_teacher),
    "GMPOTrainer": Recipe(PROMPTS, _SAMPLES, reward_funcs=reward),
    "GOLDTrainer": Recipe(MESSAGES, {"max_completion_length": 8, "lmbda": 1.0}, teacher_model=_teacher),
    "GRPOTrainer": Recipe(PROMPTS, _SAMPLES, reward_funcs=reward),
    "IWOPDTrainer": Recipe(MESSAGES, {"max_completion_length": 8, "lmbda": 1.0}, teacher_model=_teacher),
    "KTOTrainer": Recipe(_UNPAIRED),
    "ORPOTrainer": Recipe(PREFERENCES),
    "OnlineDPOTrainer": Recipe(PROMPTS, {"max_new_tokens": 8}, reward_funcs=reward),
    "RLOOTrainer": Recipe(PROMPTS, _SAMPLES, reward_funcs=reward),
    "RewardTrainer": Recipe(PREFERENCES, model=_reward_model),
    "SDFTTrainer": Recipe(_EXPLAINED, _SAMPLES),
    "SDPOTrainer": Recipe(_EXPLAINED, _SAMPLES, reward_funcs=reward),
    "SFTTrainer": Recipe([{"text": "What is 1? One."}] * 16),
    "ServerDistillationTrainer": Recipe(
        _CHAT, {"max_completion_length": 8, "teacher_model_server_url": lambda: vllm_stand_in.teacher(_work)}
    ),
    "TPOTrainer": Recipe(_TRIPLES),
}


def make(kind: type, directory: Path, steps: int = 2, data: Any = None, **arguments: Any) -> Any:
    """A trainer of class ``kind`` that trains ``steps`` steps on a model in ``directory``, on ``data`` or its usual."""
    recipe = RECIPES[kind.__name__]
    model = str(build(directory / "model"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    values = {
        "output_dir": str(directory / "out"),
        "per_device_train_batch_size": 2,
        "max_steps": steps,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "bf16": False,
        **recipe.arguments,
        **arguments,
    }
    configuration = configuration_class(kind)
    known = configuration.__dataclass_fields__
    options = {
        name: value(model) if name != "reward_funcs" and callable(value) else value
        for name, value in recipe.options.items()
    }
    return kind(
        **{
            "model": model,
            "args": configuration(
                **{name: value() if callable(value) else value for name, value in values.items() if name in known}
            ),
            "train_dataset": data or Dataset.from_list(recipe.data),
            "processing_class": tokenizer,
            **options,
        }
    )


def configuration_class(kind: type) -> type:
    """The configuration that belongs to a trainer class: its name with ``Config``, in the module beside it."""
    name = kind.__name__.replace("Trainer", "Config")
    for base in kind.__mro__:
        module = importlib.import_module(base.__module__)
        for place in (module, importlib.import_module(base.__module__.rpartition(".")[0])):
            if hasattr(place, name):
                return getattr(place, name)
    raise LookupError(name)
