"""The records that prove a finding: calls, samples and steps from its onset on, with their traces.

rows = proof.records(collected, finding)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.report.core import thresholds
from otel_rl.report.core.curves import STEP

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Finding

#: Most records of a kind.
_MOST = 5
#: In the steps from ?1 to ?2, on rank ?5; -1 stands for any rank.
_WHERE = "step BETWEEN ?1 AND ?2 AND ?5 IN (-1, coalesce(rank, -1))"
_CALLS = f"""
SELECT 'call' AS record, step, label AS process, name, place, seconds, error, trace AS trace_id, span AS span_id
FROM calls WHERE {_WHERE} AND (name = ?3 OR name LIKE '% ' || ?3) AND ?4 IN ('', place)
ORDER BY error = '', seconds DESC, started LIMIT {_MOST}"""
_SAMPLES = f"""
SELECT 'sample' AS record, step, label AS process, id, sample_id, status, reward, seconds, trace AS trace_id
FROM samples WHERE {_WHERE} ORDER BY status = 'finished', reward, step, sample LIMIT {_MOST}"""
_STEPS = f"""
SELECT 'step' AS record, step, label AS process, seconds, trace AS trace_id, span AS span_id
FROM steps WHERE {_WHERE} ORDER BY step, rank, started LIMIT {_MOST}"""
_ERRORS = f"""
SELECT 'error' AS record, step, label AS process, place, kind, span AS span_id FROM errors WHERE {_WHERE}
UNION SELECT 'logged error', step, label, place, kind, NULL FROM logged_errors WHERE {_WHERE}
ORDER BY step, process, place LIMIT {_MOST}"""
#: Section of a finding -> the records that it is about, besides calls and steps.
_OF_SECTION = dict.fromkeys(("trajectories", "rollouts", "rewards"), _SAMPLES) | {"errors": _ERRORS}


def records(collected: Collected, finding: Finding) -> list[dict[str, Any]]:
    """Return the rows of the run's tables that show the finding.

    None if it has no onset, or one in the program's own numbering, which steps and calls do not have.
    """
    if finding.onset is None or finding.counts != STEP:
        return []
    queries = [_CALLS] * bool(finding.subject) + [_OF_SECTION.get(finding.section, ""), _STEPS]
    rank = finding.ranks[0] if len(finding.ranks) == 1 else -1
    asked = finding.onset, finding.onset + thresholds.TOGETHER, finding.subject, finding.place, rank
    rows = []
    for query in filter(None, queries):
        cursor = collected.tables.stream(query, *asked)
        names = [column[0] for column in cursor.description]
        rows += [
            {key: value for key, value in zip(names, row, strict=True) if value not in (None, "")} for row in cursor
        ]
    return rows
