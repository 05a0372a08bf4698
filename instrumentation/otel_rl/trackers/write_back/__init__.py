"""Figures of each step in the program's own tracker, ``OTEL_RL_WRITE_BACK``; nothing is imported for it.

Modules:
    following: which steps are written, and when.
    figures: what is written of a step.
    writers: how each tracker takes it.
"""
