"""slime's dumps: ``{rollout_id}.pt`` and ``eval_{rollout_id}.pt``.

The options ``--save-debug-rollout-data`` and ``--dump-details`` of slime write them. They are loaded with
``weights_only=True`` alone, which runs no code of the file.
Source: ``slime/ray/rollout.py``, ``_save_debug_rollout_data``, and ``Sample.to_dict`` at 624b824a8.
"""

from __future__ import annotations

import pickle
import re
import zipfile
from importlib import import_module
from typing import TYPE_CHECKING, Any

from otel_rl.dumps.dumped_sample import DumpedSample
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status
from otel_rl.store.reader.errors import UnusableInput
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Status of a sample -> status of its trajectory, discard reason and stop reason, as the live hooks record them.
_OUTCOMES = {
    "completed": (Status.FINISHED, None, "stop"),
    "truncated": (Status.FINISHED, None, "length"),
    "failed": (Status.FAILED, None, "failed"),
    "aborted": (Status.DISCARDED, "aborted", "aborted"),
}
_UNSAFE = "not loaded: it has a {}, which weights_only=True does not know; no proof of malice, see docs/runs.md"
_ZIP = b"PK\x03\x04"
_UNKNOWN_TYPE = re.compile(r"Unsupported (?:global: GLOBAL|class) (\S+)")


def read(path: Path, reward_key: str | None, *, evaluation: bool) -> Iterator[DumpedSample]:
    """Yield the samples of a file; ``reward_key`` names the value that is trained on, of a reward with several.

    Raises:
        ValueError: it cannot be loaded without running code, or is no dump of rollouts.
        UnusableInput: there is no torch, or no key for a reward with several values.
    """
    dump = _loaded(path)
    samples = dump.get("samples") if isinstance(dump, dict) else None
    if not isinstance(samples, list) or not all(isinstance(sample, dict) for sample in samples):
        raise ValueError("no rollout dump of slime: it has no dictionary with a list `samples` of dictionaries")
    step = int_or_none(dump.get("rollout_id"))
    for place, given in enumerate(samples):
        # An evaluation counts its samples from 0, each time and in each of its data sets.
        index = None if evaluation else given.get("index")
        name = f"{'eval-' * evaluation}{step}-{place}" if index is None else str(index)
        yield _sample(given, step, name, reward_key, evaluation=evaluation)


def _loaded(path: Path) -> Any:
    try:
        torch = import_module("torch")
    except ModuleNotFoundError:
        raise UnusableInput(f"{path} needs torch to be read, which is not installed: pip install torch") from None
    with path.open("rb") as file:
        # An archive may follow anything, and torch then takes the old format for that of the file.
        if file.read(len(_ZIP)) != _ZIP or not zipfile.is_zipfile(file):
            raise ValueError("empty, cut off, or no file of torch.save")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        unknown = _UNKNOWN_TYPE.search(str(error))
        raise ValueError(_UNSAFE.format(unknown[1] if unknown else "value of some type")) from None


def _sample(
    given: dict[str, Any], step: int | None, name: str, reward_key: str | None, *, evaluation: bool
) -> DumpedSample:
    status, reason, stop = _OUTCOMES.get(str(given.get("status")), (None, None, None))
    tokens, length, group = given.get("tokens"), int_or_none(given.get("response_length")), given.get("group_index")
    versions = [int(version) for version in given.get("weight_versions") or () if str(version).isdecimal()]
    columns: dict[str, Any] = {
        attributes.RL_ROLLOUT_ID: name,
        attributes.RL_GROUP_ID: None if evaluation or group is None else str(group),
        attributes.RL_ROLLOUT_STATUS: status,
        attributes.RL_ROLLOUT_DISCARD_REASON: reason,
        attributes.RL_ROLLOUT_STOP_REASON: stop,
        attributes.RL_ROLLOUT_INPUT_TOKENS: len(tokens) - length if tokens is not None and length is not None else None,
        # Tokens of tools have 0 in the mask, as have all of a sample that is left out.
        attributes.RL_ROLLOUT_OUTPUT_TOKENS: int(sum(given.get("loss_mask") or ())) or length,
        attributes.RL_ROLLOUT_POLICY_VERSION_MIN: min(versions, default=None),
        attributes.RL_ROLLOUT_POLICY_VERSION_MAX: max(versions, default=None),
        attributes.RL_ROLLOUT_EVALUATION: evaluation or None,
    }
    sample = DumpedSample(step, given.get("prompt"), given.get("response"), columns, {"response_length": length})
    reward = given.get("reward")
    if isinstance(reward, dict) and reward_key is None:
        raise UnusableInput(f"rewards have several values: choose with --reward-key: {', '.join(map(str, reward))}")
    parts: dict[Any, Any] = dict(reward) if isinstance(reward, dict) else {reward_key: reward}
    sample.add_reward(parts.pop(reward_key, None), parts)
    return sample
