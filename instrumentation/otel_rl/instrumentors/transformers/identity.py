"""Which system and algorithm a trainer is, from its class."""

from __future__ import annotations

import re

TRANSFORMERS, TRL = "transformers", "trl"

#: Class name without its suffix -> algorithm, where lower-casing the name does not say it.
_ALGORITHMS = {"AsyncGRPO": "grpo", "Reward": "reward_modeling", "AsyncDistillation": "distillation"}
_SUFFIX = re.compile(r"(Trainer|Config|TrainingArguments)$")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z]{2})(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z]{2})")


def identify(kind: type) -> tuple[str, str | None]:
    """System and algorithm of a trainer class or of its configuration class; a program's subclass counts as its base.

    >>> from trl import GRPOConfig
    >>> identify(GRPOConfig)
    ('trl', 'grpo')
    """
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] != TRL or base.__name__.startswith("_"):
            continue
        name = _SUFFIX.sub("", base.__name__)
        if name == base.__name__ or name in ("", "Base"):
            continue
        return TRL, _ALGORITHMS.get(name) or _WORD_START.sub("_", name).lower()
    return TRANSFORMERS, None
