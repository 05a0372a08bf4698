"""The producer API behind :mod:`otel_rl`.

==============  ============================================================
``decorator``   decorators for functions, coroutines and generators
``operations``  rollouts, steps, phases, tools, rewards, metrics and events
==============  ============================================================
"""
