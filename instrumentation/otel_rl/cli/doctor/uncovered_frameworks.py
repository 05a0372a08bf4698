"""Frameworks that are installed here and that nothing instruments: what is missing, and what is recorded anyway."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from otel_rl.cli.doctor import installed_instrumentors
from otel_rl.core import instrumentor_status

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Kind(NamedTuple):
    """Frameworks of one kind.

    Attributes:
        distributions: their names, the one that stands for others of the same project first.
        not_recorded: what of them.
        instead: what is recorded, and how to record more.
    """

    distributions: tuple[str, ...]
    not_recorded: str
    instead: str


_ENDS = "how processes end, ranks, collectives of torch.distributed, model calls"
_TRAINERS = _Kind(
    (
        "lightning-fabric",
        "torchtune",
        "torchtitan",
        "composer",
        "fastai",
    ),
    "its step numbers and what it logs",
    f"{_ENDS}, steps guessed from optimizer steps; `with otel_rl.step(number):` around each iteration",
)
_LOGGING = _Kind(
    # Of git only, and not listed: slime and roll, whose names are other projects on the index.
    ("verl", "skyrl", "tinker-cookbook", "openrlhf", "areal", "nemo-rl", "prime-rl", "agentlightning"),
    "samples, and parts of a step that it does not log",
    "steps, phases and values that it logs to a tracker, workers on Ray, model calls; otel_rl.rollout()",
)
_AGENTS = _Kind(
    (
        "smolagents",
        "openai-agents",
        "pydantic-ai-slim",
        "crewai",
        "autogen-agentchat",
        "llama-index-core",
        "dspy",
        "google-adk",
        "haystack-ai",
        "semantic-kernel",
        "strands-agents",
    ),
    "agents, tools, turns",
    "model calls by an instrumented client; otel_rl.rollout() and otel_rl.tool()",
)
_TRACKERS = _Kind(
    ("wandb", "mlflow", "trackio", "swanlab", "comet-ml", "neptune", "tensorboard"),
    "what the program itself logs to it",
    "what an instrumented trainer logs; otel_rl.metric()",
)
_USED = (installed_instrumentors.READY, instrumentor_status.DEGRADED)


def installed_here(instrumentors: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return name, version, what is not recorded and what is, for each; ``instrumentors`` are the installed ones."""
    ready = {name: row for name, row in instrumentors.items() if row["state"] in _USED}
    covered = {name for row in ready.values() for name in _instrumented(row)}
    found: list[dict[str, str]] = []
    for kind in (_TRAINERS, _LOGGING, _AGENTS, _TRACKERS):
        for name in kind.distributions:
            version = installed_instrumentors.installed(name)
            if version is not None and name not in covered:
                row = {"name": name, "version": version}
                found.append({**row, "not_recorded": kind.not_recorded, "recorded": kind.instead})
    return found


def _instrumented(row: Mapping[str, Any]) -> list[str]:
    """Return the distributions that an instrumentor, ours or another's, is for."""
    found: list[str] = []
    for text in row["supports"].split(" or "):
        with suppress(InvalidRequirement):
            found.append(canonicalize_name(Requirement(text).name))
    return found
