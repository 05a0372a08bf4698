"""The functions that ``OTEL_RL_ROLLOUT_FUNCTIONS`` and ``OTEL_RL_REWARD_FUNCTIONS`` name, and what becomes of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.cli.doctor.installed_instrumentors import READY
from otel_rl.core import instrumentor_status, settings
from otel_rl.instrumentors.named_functions import RECORDED_BY_NAME, can_be_found, unfound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Name of their instrumentor.
INSTRUMENTOR = "otel_rl_functions"
_SEPARATOR = "; "


def states(configured: settings.Settings, command: Sequence[str]) -> list[dict[str, str]]:
    """One row for each function: its variable, name, state and reason. No module is imported."""
    rows = []
    for setting in ("rollout_functions", "reward_functions"):
        for name in dict.fromkeys(getattr(configured, setting) or ()):
            module = name.partition(":")[0]
            is_there = can_be_found(module, command)
            state = READY if is_there else instrumentor_status.FAILED
            reason = "" if is_there else unfound(module)
            rows.append({"variable": settings.VARIABLES[setting].name, "name": name, "state": state, "reason": reason})
    return rows


def problems(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a sentence for each function that cannot be recorded."""
    return [f"{row['variable']}: {row['name']} {row['reason']}" for row in rows if row["reason"]]


def take_in(rows: Sequence[dict[str, str]], outcome: Mapping[str, Any]) -> None:
    """Replace what was expected by what a program has reported of them."""
    reasons = str(outcome.get("reason", "")).split(_SEPARATOR)
    for row in rows:
        of_function = f"{row['variable']}: {row['name']} "
        of_module = f"module {row['name'].partition(':')[0]} "
        own = [reason for reason in reasons if reason.startswith((of_function, of_module))]
        row["reason"] = _SEPARATOR.join(reason.removeprefix(of_function) for reason in own)
        if own:
            is_partial = row["reason"].startswith(RECORDED_BY_NAME)
            row["state"] = instrumentor_status.DEGRADED if is_partial else instrumentor_status.FAILED
        else:
            state = str(outcome.get("state", ""))
            # Where the instrumentor is degraded, others of the functions are the reason.
            row["state"] = instrumentor_status.ACTIVE if state == instrumentor_status.DEGRADED else state
