"""The tables of the page: titles, texts, and what to sort by.

Modules:
    cells: a table, its cells, and cells for durations and numbers.
    training_tables: phases, ranks, collectives and rewards.
    call_tables: rollouts, tool calls, model calls and agents.
    problem_tables: errors, drops, processes and instrumentors.
"""
