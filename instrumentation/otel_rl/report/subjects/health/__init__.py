"""Verdicts of the health rules."""
