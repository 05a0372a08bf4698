"""The records of a run as numbers of bounded size; nothing here knows HTML.

Modules:
    collected: one pass over all records, which feeds every module below.
    loops: the steps of each loop and attempt.
    steps: step time by phase and by rank.
    late_ranks: ranks of which the job told, while it ran, that the others wait for them.
    engines: what inference engines did in the steps.
    collectives: collectives by operation and group.
    calls: rollouts, tool calls, model calls and agents.
    calls_over_time: durations, failures and retries of calls over the steps.
    scalars: the values that the trainer logged, one curve per key.
    health: verdicts of the health rules.
    own_cost: what otel-rl itself took of the steps.
    pressure: memory over time, garbage collections, compilations.
    event_loops: blocks of the event loops of asyncio programs.
    rewards: scores per reward function.
    reward_curves: means of the rewards of the program's own loops, as log calls.
    trajectories: samples of the run, counted, and those that are worth a look.
    trajectory_rows: the samples of a record, one by one.
    groups: groups of samples: what they teach, and whether their advantages are right.
    advantages: the formulas of the trainers.
    weight_syncs: stages of the syncs of weights, and syncs that brought nothing or a part.
    problems: errors, and telemetry that was dropped.
    timeline: the spans of a few chosen traces, as bars.
    summary: identity of the run and the ranks that reported.
    totals: counters and histograms over all processes.
    over_time: many series over the steps.
    change_points: since when a value has another level.
    statistics: spreads, binned series and the largest items, in bounded memory.
"""
