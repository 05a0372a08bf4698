"""Arrows between spans: from a parent to its child on another track, from a rollout over its rewards to its step."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_rl.export.spill import Spill
    from otel_rl.export.timeline_rows import LeftOut

#: Added to the number of a rollout, for the number of its flow: other flows have that of a span.
FURTHER = 2**40
#: Levels of spans that are drawn with their parents; deeper ones are on the track of their kind.
_LEVELS = 100

_INHERIT = """
UPDATE span SET track = (
    SELECT parent.track FROM span parent
    WHERE parent.own = span.parent AND parent.process = span.process AND parent.track NOT NULL LIMIT 1)
WHERE track IS NULL AND parent NOT NULL AND EXISTS (
    SELECT 1 FROM span parent
    WHERE parent.own = span.parent AND parent.process = span.process AND parent.track NOT NULL)
"""

#: A flow has the number of the child; several parents with one id are records of one span, delivered twice.
_EDGES = """
CREATE TABLE edge AS
SELECT min(parent.id) AS source, child.id AS target
FROM span child JOIN span parent ON parent.own = child.parent
WHERE parent.track <> child.track GROUP BY child.id
"""
#: The end of an arrow comes after its begin, by 1 ns at least: readers take events of one time in any order.
_OF_EDGES = """
CREATE TABLE leading AS
SELECT source.id AS source, source.start AS begin, target.id AS target, target.kind AS name,
    max(target.start, source.start + 1) AS time,
    target.start > source.start OR target.stop > source.start + 1 AS is_forward
FROM edge JOIN span source ON source.id = edge.source JOIN span target ON target.id = edge.target;
"""
_ARROWS = """
INSERT INTO arrow
SELECT source, 's', target, begin, name FROM leading WHERE is_forward
UNION ALL
SELECT target, 'f', target, time, name FROM leading WHERE is_forward
"""
_AGAINST_TIME = "SELECT count(*) FROM leading WHERE NOT is_forward"

#: A rollout leads to the first phase of its step that begins after it, else to a step that begins later than it does.
#: Perfetto turns an arrow round that leads to a slice which began before.
_TAKES = """
CREATE TABLE taken AS
SELECT rollout.id AS rollout, rollout.trace AS trace, rollout.start AS start, min(coalesce(
    (SELECT phase.id FROM span phase
     WHERE phase.parent = step.own AND phase.kind IN ('phase', 'reward') AND phase.start >= rollout.stop
     ORDER BY phase.start LIMIT 1),
    CASE WHEN step.start >= rollout.start THEN step.id END)) AS target
FROM link JOIN span rollout ON rollout.id = link.span JOIN span step ON step.own = link.target
WHERE rollout.kind = 'rollout' AND step.kind = 'step' GROUP BY rollout.id
"""
_OF_ROLLOUTS = f"""
INSERT INTO arrow
SELECT rollout, 's', rollout + {FURTHER}, start, 'rollout' FROM taken WHERE target NOT NULL
UNION ALL
SELECT reward.id, 't', taken.rollout + {FURTHER}, reward.start, 'rollout'
FROM taken JOIN span target ON target.id = taken.target JOIN span reward ON reward.trace = taken.trace
WHERE reward.kind = 'reward' AND reward.start >= taken.start AND reward.start < target.start
UNION ALL
SELECT target.id, 'f', taken.rollout + {FURTHER}, target.start, 'rollout'
FROM taken JOIN span target ON target.id = taken.target
"""  # noqa: S608 - ours
_UNTAKEN = "SELECT count(*) FROM taken WHERE target IS NULL"


def prepare(spill: Spill, left_out: LeftOut) -> None:
    """Give every span a track, and find the arrows; count those that would lead back in time."""
    spill.run("CREATE INDEX span_by_key ON span (own)")
    for _ in range(_LEVELS):
        if not spill.run(_INHERIT):
            break
    spill.run("UPDATE span SET track = fallback WHERE track IS NULL")
    spill.run(_EDGES)
    spill.run(_OF_EDGES)
    spill.run(_ARROWS)
    left_out.arrows_against_time += int(spill.row(_AGAINST_TIME)[0])
    spill.run("CREATE INDEX reward_by_trace ON span (trace) WHERE kind = 'reward'")
    spill.run("CREATE INDEX phase_by_parent ON span (parent) WHERE kind IN ('phase', 'reward')")
    spill.run(_TAKES)
    spill.run(_OF_ROLLOUTS)
    left_out.arrows_to_no_phase += int(spill.row(_UNTAKEN)[0])
    spill.run("CREATE INDEX arrow_by_span ON arrow (span)")
    spill.run("CREATE INDEX event_by_span ON event (span)")
