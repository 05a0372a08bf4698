"""Processes that the driver calls: what they log, and what the timer of the ranks that train has of a phase."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.slime.driver import scope
from otel_rl.process import process_identity
from otel_rl.semconv import spans
from otel_rl.training import timed_loop
from otel_rl.training.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token

#: Parts of the timer, which may have the name of a model before theirs. The driver knows the others from outside.
_LOG_PROBS = re.compile(r"(?:\w+_)?log_probs")
#: What runs, by its name: the timer, one per process, admits each once.
_open: dict[str, Phase] = {}


def timer_started(_: None, __: Any, name: str) -> None:
    """Begin log-probabilities, as a part of the training that the driver waits for; once for all ranks."""
    if scope.enabled and process_identity.current().rank in (0, None) and _LOG_PROBS.fullmatch(name):
        _open[name] = Phase(spans.RL_LOG_PROBS, scope).start()


def timer_ends(_: Any, name: str) -> None:
    """End them."""
    phase = _open.pop(name, None)
    if phase is not None:
        phase.close()


def log_begins(_: Any, metrics: Mapping[str, Any], step_key: str) -> Token[object] | None:
    """Record what is logged, before a tracker gets it; the step is among the values."""
    return timed_loop.log_begins(scope, None, metrics, metrics[step_key])
