"""How the run ended, or that it runs.

Modules:
    recorded: the ends that processes have recorded themselves.
    process_end: how each process ended, one statement for all of the page.
    result: what the run came to.
    words: ends as sentences; failures that have a name, and what to do next.
    finding: the first process to stop, and those that failed because of it.
    peers: ranks that had left when others failed.
    restarts: how earlier attempts ended, and what the one that followed has lost.
    section: where each rank was, and who waited for whom.
"""

from __future__ import annotations

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.endings import finding, process_end, section

SUBJECT = Subject(
    "endings",
    findings=finding.findings,
    checks=finding.checks,
    sections={process_end.SECTION: section.build},
)
