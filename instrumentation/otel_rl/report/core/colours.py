"""Colours of phases and of kinds of calls, the same in every chart; chosen to be told apart on light and dark."""

from __future__ import annotations

from otel_rl.semconv.attributes import RlPhaseValues as Phase

BY_KIND = {
    Phase.SAMPLE: "#7cb7f2",
    Phase.GENERATE: "#2f7ed8",
    Phase.LOG_PROBS: "#5b5bd6",
    Phase.REWARD: "#f0a020",
    Phase.TRAIN: "#8fd19e",
    Phase.FORWARD: "#46b37b",
    Phase.BACKWARD: "#1f8a5b",
    Phase.OPTIMIZER: "#0c5f46",
    Phase.SYNC: "#e879a6",
    Phase.WEIGHT_SYNC: "#c2255c",
    Phase.DATA_WAIT: "#d9480f",
    Phase.CHECKPOINT: "#8e5bb5",
    Phase.LOAD: "#b08900",
    Phase.EVALUATE: "#14a3a8",
    "uncovered": "#a3a9b5",
    "other": "#a3a9b5",
    "model": "#2f7ed8",
    "tool": "#f0a020",
    "agent": "#8e5bb5",
    "service": "#c2410c",
    "prefill": "#174a8c",
}

LINES = ("#2f7ed8", "#e8590c", "#1f8a5b", "#8e5bb5", "#c2255c", "#14a3a8", "#b08900", "#5b5bd6")
"""For lines without a meaning of their own, in this order."""

FAILED = "#e03131"

WAITING, HATCH = "#e9ebef", "#8a93a1"
"""What waits is light and neutral, with a hatch, so that idleness does not lean on hue alone."""


def colour_of(kind: str) -> str:
    """Return the colour of a phase or kind; grey for one without a colour of its own."""
    return BY_KIND.get(kind, BY_KIND["other"])


def order(phase: str) -> int:
    """Return a phase's position in a stack: step order, with unknown phases just before the remainder."""
    known = list(BY_KIND)
    return known.index(phase) if phase in BY_KIND else known.index("uncovered") - 1
