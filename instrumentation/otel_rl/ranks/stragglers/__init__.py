"""Stragglers: the rank that makes the others wait, by how much, in which operation and phase.

The flight recorder's rings of the ranks say when each rank entered each collective, and how long it waited. From that
one step is replayed without a rank: the time that the other ranks save is what this rank costs them.

Modules, each importing only those below it:
    watch: the thread of a node's first rank that compares the ranks while they run, and its gauges and events.
    node: the rings of one node, while the ranks write them.
    run: the rings of a whole run, of several nodes too.
    suspicion: whether a comparison is worth its cost.
    persistence: which stragglers are worth an event: those that last.
    comparison: one step of all ranks: who was last, and what that cost.
    replay: the same step again with one rank left out.
    last_arrivals: who came last, from the time that each rank's device spent in a collective.
    allowance: how much CPU time the comparison may take.
    clocks: moments of several nodes on one clock.
    timeline: the steps of one rank, from its ring.
"""
