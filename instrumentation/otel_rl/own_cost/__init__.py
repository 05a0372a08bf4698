"""The CPU time that otel-rl takes itself, and what it leaves out to take less.

==============  =================================================================
``samples``     our work on the program's threads, estimated from every n-th call
``threads``     the threads of our own, by their clocks
``reductions``  the ladder: what can be left out, and whether it is
==============  =================================================================

A leaf, which hot paths import. :mod:`otel_rl.training.cost_guard` reads the figures and climbs the ladder.
"""
