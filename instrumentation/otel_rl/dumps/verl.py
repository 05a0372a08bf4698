"""verl's dumps: ``{global_step}.jsonl`` in ``trainer.rollout_data_dir`` or ``validation_data_dir``.

The texts were decoded without special tokens, so a conversation is one prompt and one answer, without turns or tokens.
Source: ``_write_generations`` in ``verl/trainer/ppo/ray_trainer.py`` and ``v1/trainer_base.py`` of verl 0.9.1.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from otel_rl.dumps.dumped_sample import REWARD, DumpedSample
from otel_rl.report.core import human
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FIELDS = frozenset({"input", "output", "score", "step"})
#: What is no part of the score. Validation repeats it as `reward`.
_NO_PARTS = _FIELDS | {"gts", "request_id", "uid", REWARD}


def read(path: Path, _: str | None, *, evaluation: bool) -> Iterator[DumpedSample]:
    """Yield the samples of a file.

    Raises:
        ValueError: after the samples: some lines are malformed.
    """
    malformed = []
    with path.open("rb") as lines:
        for place, line in enumerate(lines):
            try:
                given = json.loads(line)
            except (ValueError, RecursionError):
                given = None
            if isinstance(given, dict) and given.keys() >= _FIELDS:
                yield _sample(given, place, evaluation=evaluation)
            elif line.strip():
                malformed.append(str(place + 1))
    if malformed:
        count, named = human.amount(len(malformed), "malformed line"), human.listed(malformed)
        raise ValueError(f"{count} left out, no JSON object with input, output, score and step: line {named}")


def _sample(given: dict[str, Any], place: int, *, evaluation: bool) -> DumpedSample:
    step, uid = int_or_none(given["step"]), given.get("uid")
    columns: dict[str, Any] = {
        attributes.RL_ROLLOUT_ID: str(uid or given.get("request_id") or f"{'eval-' * evaluation}{step}-{place}"),
        # `{sample}_{rollout}_{output}`
        attributes.RL_GROUP_ID: uid.rsplit("_", 2)[0] if isinstance(uid, str) and uid.count("_") > 1 else None,
        attributes.RL_ROLLOUT_STATUS: Status.FINISHED,
        attributes.RL_ROLLOUT_EVALUATION: evaluation or None,
        attributes.RL_ROLLOUT_SUCCESS: bool(given["acc"]) if given.get("acc") in (0, 1) else None,
    }
    sample = DumpedSample(step, given["input"], given["output"], columns)
    sample.add_reward(given["score"], {key: part for key, part in given.items() if key not in _NO_PARTS})
    return sample
