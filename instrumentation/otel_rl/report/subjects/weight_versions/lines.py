"""What the section on trajectories says of the versions of the engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.subjects.weight_versions.aggregate import of_run

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected


def sentences(collected: Collected) -> list[str]:
    """Return the line of the section on trajectories: who is how far behind at the end."""
    versions = of_run(collected)
    engines = versions.engines
    if not engines:
        return []
    unknown = [name for name, history in engines.items() if history.behind is None]
    behind = [f"{name} {human.number(history.behind)}" for name, history in engines.items() if history.behind]
    newest = max(engines.values(), key=lambda history: history.rollouts).latest
    said = f"{human.amount(len(engines), 'engine')} said the version of the weights (the last one {newest})"
    if len(unknown) == len(engines):
        return [f"{said}; how far they were behind is not known."]
    lags = (
        f"behind at the last rollout, in versions: {human.listed(behind)}"
        if behind
        else "none was behind at its last rollout"
    )
    others = f"; not known of {human.listed(unknown)}" if unknown else ""
    share = human.percent(versions.old_tokens / versions.tokens) if versions.tokens else ""
    old = [f"Older weights than the newest made {share} of the output tokens."] if versions.old_tokens else []
    return [f"{said}; {lags}{others}.", *old]
