"""What deserves a look: each finding says what is wrong, where, since when, and what it costs; ranked by cost.

    found = overview.examine(collected)
    for finding in found.findings: print(finding.text)

A finding has its symptoms below it: a wait for a late rank is no finding of its own. Thresholds stand in one place,
:mod:`thresholds`. Modules, each importing only those below it:
    output: findings as lines for a terminal and as JSON.
    overview: all findings in order, what was checked, and what was unobserved.
    endings: processes that did not end in order, the first to stop before those that failed because of it.
    late_ranks: the rank that the others wait for, or waited for.
    comparisons: a tool, reward function or server that is slower than its siblings all along.
    changes: what takes longer since a step, its place, and what that costs.
    change_sentences: one sentence for each change.
    health: what the health rules say.
    failures: tools and model calls that fail, and other errors.
    samples: advantages that the rewards do not give.
    weight_syncs: weights that did not reach an engine.
    event_loops: event loops that were blocked.
    recording: what telemetry lost, or could not see.
    series: every duration and rate over the steps, by place.
    sentences: sentences that stand in several places of the page.
    thresholds: what is large enough to be said.
    finding: a finding and a check.
"""
