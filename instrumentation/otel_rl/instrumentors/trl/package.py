"""Versions of TRL whose trainers we patch."""

REQUIREMENT = "trl >= 0.27, < 2"
