"""What the subjects of the report share.

Modules:
    collected: a subject, and one pass over all records of a run, whose tables all subjects ask.
    summary: identity of the run and the ranks that reported.
    loops: the steps of each loop and attempt.
    steps: step time by phase and by rank.
    engines: what inference engines did in the steps.
    totals: counters and histograms over all processes.
    step_rewards: means of the rewards of a loop of the program's own, from its samples.
    later_words: what was said of samples and is in no row.
    messages: what was said to models and tools.
    cut_messages: reads messages that a length limit has cut off.
    timeline: the spans of a few chosen traces, as bars.
    flight_rings: who was late in the last steps, and where each rank stopped.
    lines: series over the steps.
    kept_answers: answers about earlier steps of a run that grows.
    stretches: what can be seen of stretches of time that lie above each other.
    curves: a line of values.
    links: the chain from a cause to what follows.
    levels: since when a value has another level.
    detectors: a curve that jumps, a value that stands still, growth, a cost that comes and goes.
    statistics: spreads, binned series and the largest items, in bounded memory.
    finding: a finding and a check.
    thresholds: what is large enough to be a finding.
    sentences: sentences that stand in several places of the page.
    output: findings as lines for a terminal and as JSON.
    human: numbers, times and lists as people read them.
    reading: what the user sees of the reading of a run.
    replaced_file: a file that appears whole or not at all.
    blocks: the pieces that a section is made of.
    cells: a table, its cells, and cells for durations and numbers.
    charts: the charts of the sections.
    plots: descriptions of charts.
    figures: Bokeh's models of charts, from their descriptions.
    state_charts: descriptions of the charts of the state timeline.
    axes: the units of their axes.
    colours: the colours of phases and kinds of calls.
"""
