"""Stragglers: the ranks that make the others wait, by how much, in which operation and phase.

The flight recorder's rings of the ranks say when each rank entered each collective, and how long it waited. From that
one step is replayed with late ranks as fast as the fastest: the time that the others save is what these cost them.

Modules, each importing only those below it:
    watch: the thread of a node's first rank that compares the ranks while they run, and its gauges and events.
    node: the rings of one node, while the ranks write them.
    run: the rings of a whole run, of several nodes too.
    suspicion: whether a comparison is worth its cost.
    persistence: which stragglers are worth an event: those that last.
    lasting: the steps in which a rank was late again and again, and whether that is chance.
    comparison: one step of all ranks: who was late, and what that cost.
    replay: the same step again with late ranks as fast as the fastest.
    stretches: the own work of one rank, from wait to wait.
    meetings: what each rank did before a collective for which they wait: what the comparison takes.
    last_arrivals: who came last, by the time that each rank's device spent in a collective.
    allowance: how much CPU time the comparison may take.
    clocks: moments of several nodes on one clock.
    timeline: the steps of one rank, from its ring.
"""
