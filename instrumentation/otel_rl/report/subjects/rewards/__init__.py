"""Scores and durations of the reward functions."""
